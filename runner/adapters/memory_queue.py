"""The queue inside one process, for working alone: messages are gone with the process."""

from __future__ import annotations

import threading

from runner.domain.ids import RunId


class MemoryRunQueue:
    """Hands out run ids in the order they came; one that is already queued is not queued twice."""

    def __init__(self) -> None:
        self._due: dict[RunId, None] = {}  # a dict keeps the order and knows its members
        self._changed = threading.Condition()

    def publish(self, run_id: RunId) -> None:
        """Say that a run is due; saying it twice is harmless."""
        with self._changed:
            self._due.setdefault(run_id)
            self._changed.notify()

    def take(self, *, timeout_seconds: float) -> RunId | None:
        """Return the next run id, or None when none came within the time."""
        with self._changed:
            if not self._changed.wait_for(lambda: bool(self._due), timeout=timeout_seconds):
                return None
            run_id = next(iter(self._due))
            del self._due[run_id]
            return run_id
