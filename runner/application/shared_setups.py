"""One setup at a time for each key in this process: one run makes it, the others wait."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from runner.application.stopping import StopFlag
from runner.domain.ids import SetupKey
from runner.domain.records import SetupResult
from sandbox import Snapshot

LOOK_SECONDS = 0.2
"""How often a run that waits for another's setup looks whether it was told to stop."""


@dataclass(frozen=True, slots=True)
class SetupDone:
    """What a setup came to, and the files that it left."""

    result: SetupResult
    start: Snapshot | None
    """None = it failed."""


@dataclass(slots=True)
class _Attempt:
    """One run's try at a setup; whoever waits for it has its end, good or bad."""

    ended: threading.Event = field(default_factory=threading.Event)
    done: SetupDone | None = None
    """None = under way, or stopped before it came to anything."""


class SharedSetups:
    """The setups that are under way in one process. Thread-safe.

    Nothing is remembered beyond an attempt's end: what succeeded is in the store, and what failed
    is tried again by who comes later.
    """

    def __init__(self, *, look_seconds: float = LOOK_SECONDS) -> None:
        """Begin with none under way."""
        self._look_seconds = look_seconds
        self._attempts: dict[SetupKey, _Attempt] = {}
        self._guard = threading.Lock()

    def join(self, key: SetupKey, make: Callable[[], SetupDone], *, stop: StopFlag) -> SetupDone:
        """Make a setup, or wait for the run that makes it.

        Where that run is stopped or lost before the setup came to anything, one of the waiting
        runs makes it.

        Raises:
            RunStoppedError: the run was told to stop meanwhile.
        """
        while True:
            attempt, ours = self._enter(key)
            if ours:
                return self._make(key, attempt, make)
            while not attempt.ended.wait(self._look_seconds):
                stop.check()
            if attempt.done is not None:
                shared = replace(attempt.done.result, reused=True)
                return replace(attempt.done, result=shared)
            stop.check()

    def _enter(self, key: SetupKey) -> tuple[_Attempt, bool]:
        with self._guard:
            if key in self._attempts:
                return self._attempts[key], False
            self._attempts[key] = _Attempt()
            return self._attempts[key], True

    def _make(self, key: SetupKey, attempt: _Attempt, make: Callable[[], SetupDone]) -> SetupDone:
        try:
            attempt.done = make()
            return attempt.done
        finally:
            with self._guard:
                del self._attempts[key]
            attempt.ended.set()
