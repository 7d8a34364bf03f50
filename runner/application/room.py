"""Room on the file systems that runs fill: looked at before a run starts.

A host without room fails in odd ways: an engine that wedges, a store that cannot write, volumes
that lose what was written to them. So new runs wait, and what waits says why.
"""

from __future__ import annotations

from runner.application.capacity import LeastRoom
from runner.application.services import Services
from sandbox import Room, SandboxError

_MIB = 1024 * 1024


def find_shortage(services: Services) -> str:
    """Return what keeps runs from starting on this host; empty when there is room.

    Where a file system cannot be looked at there is no shortage: the run will say what is wrong.
    """
    try:
        rooms = services.host.list_rooms()
    except SandboxError:
        return ""
    return "; ".join(filter(None, (_tell(room, services.least_room) for room in rooms)))


def _tell(room: Room, least: LeastRoom) -> str:
    short = []
    if room.free_bytes < least.free_mib * _MIB:
        short.append(f"{room.free_bytes // _MIB} MiB free, {least.free_mib} are needed to start")
    if room.free_inodes is not None and room.free_inodes < least.free_inodes:
        short.append(f"{room.free_inodes} inodes free, {least.free_inodes} are needed to start")
    return f"{room.used_for} ({room.path}): {', '.join(short)}" if short else ""
