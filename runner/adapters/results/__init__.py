"""Writes the folder of results: per task four files, per batch a report in three forms."""

from runner.adapters.results.folder import FolderResultsWriter

__all__ = ["FolderResultsWriter"]
