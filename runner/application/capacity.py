"""What this host can carry at once: memory is never over-committed, CPUs are by a factor."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from policies import Limits

CPU_FACTOR = 8
"""CPUs are promised this many times over, since agents mostly wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSize:
    """What the host has for sandboxes."""

    memory_mib: int
    cpu_thousandths: int
    """Cores times 1000, before over-commitment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeastRoom:
    """What has to be free on each file system for a run to start."""

    free_mib: int = 2048
    free_inodes: int = 20_000


class Capacity:
    """Counts what the running tasks were promised. Thread-safe."""

    def __init__(self, size: HostSize, *, cpu_factor: int = CPU_FACTOR) -> None:
        self.size = HostSize(
            memory_mib=size.memory_mib, cpu_thousandths=size.cpu_thousandths * cpu_factor
        )
        """What may be promised in all."""
        self._left = self.size
        self._lock = threading.Lock()

    def can_ever_hold(self, limits: Limits) -> bool:
        """Tell whether a sandbox of these limits fits on an idle host."""
        return _fits(limits, self.size)

    def can_hold_now(self, limits: Limits) -> bool:
        """Tell whether there is room for one sandbox; it may be gone a moment later."""
        with self._lock:
            return _fits(limits, self._left)

    def try_take(self, limits: Limits) -> bool:
        """Promise room for one sandbox, or tell that there is none now."""
        with self._lock:
            if not _fits(limits, self._left):
                return False
            self._left = _minus(self._left, limits, sign=1)
            return True

    def give_back(self, limits: Limits) -> None:
        """Take a promise back."""
        with self._lock:
            self._left = _minus(self._left, limits, sign=-1)


def _fits(limits: Limits, size: HostSize) -> bool:
    return limits.memory_mib <= size.memory_mib and limits.cpu_thousandths <= size.cpu_thousandths


def _minus(size: HostSize, limits: Limits, *, sign: int) -> HostSize:
    return HostSize(
        memory_mib=size.memory_mib - sign * limits.memory_mib,
        cpu_thousandths=size.cpu_thousandths - sign * limits.cpu_thousandths,
    )
