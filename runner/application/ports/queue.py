"""Port: messages that say "look at run N". A hint; the store is the truth."""

from __future__ import annotations

from typing import Protocol

from runner.domain.ids import RunId


class RunQueue(Protocol):
    """Carries run ids from who stores work to who does it. Thread-safe."""

    def publish(self, run_id: RunId) -> None:
        """Say that a run is due; saying it twice is harmless."""
        ...

    def take(self, *, timeout_seconds: float) -> RunId | None:
        """Return the next run id, or None when none came within the time."""
        ...
