"""Who takes leases: a process that can be told apart from every other, also after a reboot."""

from __future__ import annotations

import socket
from pathlib import Path

PROC = Path("/proc")


def make_holder(pid: int) -> str:
    """Return `host:boot id:pid:start time` of a live process of this host.

    Raises:
        ProcessLookupError: there is no such process.
    """
    start = _read_start(pid)
    if start is None:
        raise ProcessLookupError(pid)
    return f"{socket.gethostname()}:{_read_boot_id()}:{pid}:{start}"


def is_holder_gone(holder: str) -> bool:
    """Tell whether a holder's process ran on this host and is no more.

    A holder of another host, or one that cannot be read, is never called gone.
    """
    host, _, rest = holder.partition(":")
    parts = rest.split(":")
    if host != socket.gethostname() or len(parts) != 3 or not parts[1].isdigit():
        return False
    boot_id, pid, start = parts
    if boot_id != _read_boot_id():
        return True
    return _read_start(int(pid)) != start


def _read_boot_id() -> str:
    return (PROC / "sys/kernel/random/boot_id").read_text().strip()


def _read_start(pid: int) -> str | None:
    """Return the process's start time in clock ticks since boot; None when it is gone or dead."""
    try:
        stat = (PROC / str(pid) / "stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else fields[19]  # proc(5): state is field 3, starttime 22
