"""Ports: time and chance, so that tests can fix both."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol


class Clock(Protocol):
    """Where time comes from."""

    def now(self) -> datetime:
        """Return the instant, aware, UTC."""
        ...

    def monotonic(self) -> float:
        """Return seconds on a clock that never goes back."""
        ...


class Entropy(Protocol):
    """Where ids come from."""

    def random_bytes(self, count: int) -> bytes:
        """Return that many random bytes."""
        ...
