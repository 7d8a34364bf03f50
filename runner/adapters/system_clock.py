"""The machine's clock and the kernel's randomness."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime


class SystemClock:
    """Tells the machine's time."""

    def now(self) -> datetime:
        """Return the instant, aware, UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Return seconds on a clock that never goes back."""
        return time.monotonic()


class SystemEntropy:
    """Draws from the kernel."""

    def random_bytes(self, count: int) -> bytes:
        """Return that many random bytes."""
        return os.urandom(count)
