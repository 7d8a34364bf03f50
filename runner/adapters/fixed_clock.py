"""Doubles of time and chance: they change only when they are told to."""

from __future__ import annotations

import hashlib
import threading
from datetime import UTC, datetime, timedelta

START = datetime(2026, 11, 30, 10, 36, 37, tzinfo=UTC)


class FixedClock:
    """A clock that stands still until it is advanced. Thread-safe."""

    def __init__(self, start: datetime = START) -> None:
        self._start = start
        self._passed_seconds = 0.0
        self._lock = threading.Lock()

    def now(self) -> datetime:
        """Return the instant, aware, UTC."""
        return self._start + timedelta(seconds=self._passed_seconds)

    def monotonic(self) -> float:
        """Return the seconds that it was advanced by."""
        return self._passed_seconds

    def advance(self, seconds: float) -> None:
        """Let time pass.

        Raises:
            ValueError: time would go back.
        """
        if seconds < 0:
            raise ValueError(f"time does not go back ({seconds} seconds)")
        with self._lock:
            self._passed_seconds += seconds


class FixedEntropy:
    """A source that gives the same bytes for the same seed, and never repeats. Thread-safe."""

    def __init__(self, seed: str = "") -> None:
        self._seed = seed.encode()
        self._drawn = 0
        self._lock = threading.Lock()

    def random_bytes(self, count: int) -> bytes:
        """Return that many bytes of the sequence."""
        with self._lock:
            self._drawn += 1
            number = self._drawn
        return hashlib.shake_256(b"%s:%d" % (self._seed, number)).digest(count)
