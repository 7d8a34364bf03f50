"""Room on the host's file systems: told to the scheduler, and watched while commands run.

Volumes are sparse: what a task writes may find no room on the host although its own limit is far.
The kernel has said yes to it by then and loses it later, so nothing of such a volume is trusted: a
command is ended while there is still room for store and logs, and its run with it.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

from sandbox.command import StopSignal
from sandbox.docker.loop_mount import sync_file_system
from sandbox.docker.volumes import Volume
from sandbox.errors import DiskFullError
from sandbox.sandbox import Room

_MIB = 1024 * 1024
_LOOK_SECONDS = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptFree:
    """What commands leave to the store, the log and everybody else."""

    free_bytes: int = 512 * _MIB
    inodes: int = 1000


def measure_room(used_for: str, path: Path) -> Room:
    """Return what is free where a path is; its nearest folder that exists is looked at.

    Raises:
        OSError: it cannot be looked at.
    """
    place = next(one for one in (path, *path.parents) if one.exists())
    found = os.statvfs(place)
    return Room(
        used_for=used_for,
        path=str(path),
        free_bytes=found.f_bavail * found.f_frsize,
        free_inodes=found.f_favail if found.f_files else None,  # btrfs makes them as it goes
    )


class HostRoom:
    """The file system that volumes and store are on."""

    def __init__(self, home: Path, kept: KeptFree) -> None:
        self._home = home
        self._kept = kept

    def watch(self, stop: StopSignal | None) -> RoomWatch:
        """Return a signal that also ends a command when the host has no more room."""
        return RoomWatch(self, stop)

    def find_shortage(self) -> str:
        """Return what is short; empty while there is room."""
        room = measure_room("home", self._home)
        kept = self._kept
        if room.free_bytes < kept.free_bytes:
            return f"{room.free_bytes // _MIB} MiB free, {kept.free_bytes // _MIB} are kept"
        if room.free_inodes is not None and room.free_inodes < kept.inodes:
            return f"{room.free_inodes} inodes free, {kept.inodes} are kept"
        return ""

    def check(self, volume: Volume) -> None:
        """Make sure that what a command has written is there.

        Raises:
            DiskFullError: the host has no room left, or had none for it.
        """
        room = measure_room("home", self._home)
        if room.free_bytes < self._kept.free_bytes + volume.limits.disk_mib * _MIB:
            try:
                sync_file_system(volume.files)
            except OSError as error:
                raise self._full(f"what was written is lost ({error})") from error
        shortage = self.find_shortage()
        if shortage:
            raise self._full(shortage)

    def _full(self, problem: str) -> DiskFullError:
        return DiskFullError(f"the host has no room left ({self._home}): {problem}")


class RoomWatch:
    """A stop signal: somebody's own, or the host's room."""

    def __init__(self, room: HostRoom, stop: StopSignal | None) -> None:
        self._room = room
        self._stop = stop
        self._look = 0.0
        self._short = False

    def is_set(self) -> bool:
        """Tell whether to stop."""
        if self._stop is not None and self._stop.is_set():
            return True
        now = time.monotonic()
        if now >= self._look:
            self._look = now + _LOOK_SECONDS
            self._short = bool(self._room.find_shortage())
        return self._short
