"""Reads batch files (DESIGN.md §7) and the script files that they name."""

from runner.adapters.batch_file.load import load_batch_file
from runner.adapters.batch_file.schema import make_batch_schema

__all__ = ["load_batch_file", "make_batch_schema"]
