"""Port: the folder of results that people and scripts read after a task or a batch has ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from runner.application.report import BatchReport, TaskReport
from runner.application.timeline import ToolStep


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskResults:
    """Everything that is kept of one ended task."""

    report: TaskReport
    timeline: tuple[ToolStep, ...]
    patch: bytes
    """Turns the base commit into the last snapshot's `source_tree` exactly."""
    patch_problem: str = ""
    """Why there is no patch; empty when there is one."""
    rollout: bytes
    """JSONL of the whole session."""
    verify_log: bytes = b""
    """Empty when nothing was verified."""
    setup_log: bytes | None = None
    """None = the task has no setup, or ended before it was run."""


class ResultsWriter(Protocol):
    """Writes results. Thread-safe; each file appears whole or not at all."""

    def probe(self, results: str) -> None:
        """Make the folder that batches get theirs in, and prove that it can be written.

        Raises:
            ResultsError: it cannot.
        """
        ...

    def has_task(self, results_dir: str, name: str) -> bool:
        """Tell whether the files of a task are complete."""
        ...

    def write_task(self, results_dir: str, results: TaskResults) -> None:
        """Write an ended task's files below the batch's folder.

        A task whose files are complete is left untouched, so that writing again after a crash
        changes nothing that was there.

        Raises:
            ResultsError: the folder cannot be written.
        """
        ...

    def write_batch(self, report: BatchReport) -> None:
        """Write the batch's own files from its report and the files of its tasks.

        May be called again as tasks end; also points `latest` at this batch, unless it points at a
        newer one.

        Raises:
            ResultsError: the folder cannot be written.
        """
        ...
