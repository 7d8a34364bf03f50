"""Why a run stops before its end: asked at every step and while commands run."""

from __future__ import annotations

import threading
from enum import StrEnum

from runner.errors import RunnerError


class StopReason(StrEnum):
    """Why to stop."""

    #: the person cancelled the task or its batch: the run ends
    CANCELLED = "cancelled"
    #: this process is going away: the run goes on later from its last snapshot
    SUSPENDED = "suspended"
    #: someone else owns the run now: touch nothing
    LEASE_LOST = "lease_lost"


class RunStoppedError(RunnerError):
    """The run was told to stop."""

    code = "stopped"

    def __init__(self, reason: StopReason) -> None:
        self.reason = reason
        super().__init__(f"the run was stopped: {reason.value}")


class StopFlag:
    """Set once by another thread; the first reason stays."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self._lock = threading.Lock()
        self._reason: StopReason | None = None

    @property
    def reason(self) -> StopReason | None:
        """The reason, or None while nobody has asked to stop."""
        return self._reason

    def stop(self, reason: StopReason) -> None:
        """Ask to stop; a later reason changes nothing."""
        with self._lock:
            if self._reason is None:
                self._reason = reason
        self._event.set()

    def is_set(self) -> bool:
        """Tell whether to stop."""
        return self._event.is_set()

    def wait(self, seconds: float) -> None:
        """Let time pass, at most until somebody asks to stop."""
        self._event.wait(seconds)

    def check(self) -> None:
        """Go on, or stop.

        Raises:
            RunStoppedError: somebody asked to stop.
        """
        if self._reason is not None:
            raise RunStoppedError(self._reason)
