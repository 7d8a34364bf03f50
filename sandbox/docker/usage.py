"""Adds up what a watched volume holds, whatever hostile code made of it."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final, NamedTuple

from sandbox.git.descriptors import open_directory, widen_mode
from sandbox.git.failures import translated_os_errors

_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_LISTABLE: Final = 0o500
_BLOCK_BYTES: Final = 512  # stat(2): st_blocks


class Usage(NamedTuple):
    """What a tree takes of its file system."""

    size_bytes: int
    """Allocated, not what sparse files pretend; each inode once."""
    entries: int
    """Names below the top."""


def add_up(top: Path) -> Usage:
    """Return what is below a directory: at any depth, behind any modes, through no link.

    Nothing may be running in it meanwhile.

    Raises:
        SnapshotError: the operating system refuses something.
    """
    with translated_os_errors("adding up a volume"):
        return _Adding(os.open(top, _DIRECTORY)).run()


class _Adding:
    """One sum under way: down by name and up by `..`, so that no depth needs more descriptors."""

    def __init__(self, top: int) -> None:
        self._current = top
        self._closed_modes: list[int | None] = []
        """One for each level below the top: the mode to put back, if any."""
        self._blocks = 0
        self._entries = 0
        self._linked: set[int] = set()

    def run(self) -> Usage:
        try:
            pending = [self._list()]
            while pending:
                if pending[-1]:
                    self._go_down(pending[-1].pop())
                    pending.append(self._list())
                    continue
                pending.pop()
                if pending:
                    self._go_up()
        finally:
            os.close(self._current)
        return Usage(self._blocks * _BLOCK_BYTES, self._entries)

    def _go_down(self, name: bytes) -> None:
        mode = stat.S_IMODE(os.stat(name, dir_fd=self._current, follow_symlinks=False).st_mode)
        closed = os.geteuid() != 0 and mode & _LISTABLE != _LISTABLE
        if closed:
            widen_mode(self._current, name)
        self._closed_modes.append(mode if closed else None)
        self._move_to(open_directory(self._current, name))

    def _go_up(self) -> None:
        above = os.open("..", _DIRECTORY, dir_fd=self._current)
        mode = self._closed_modes.pop()
        if mode is not None:
            os.fchmod(self._current, mode)
        self._move_to(above)

    def _move_to(self, descriptor: int) -> None:
        os.close(self._current)
        self._current = descriptor

    def _list(self) -> list[bytes]:
        """Count the names of a directory; return those of the directories in it."""
        below: list[bytes] = []
        with os.scandir(self._current) as listing:
            for item in listing:
                status = item.stat(follow_symlinks=False)
                self._count(status)
                if stat.S_ISDIR(status.st_mode):
                    below.append(os.fsencode(item.name))
        return below

    def _count(self, status: os.stat_result) -> None:
        self._entries += 1
        if status.st_nlink > 1 and not stat.S_ISDIR(status.st_mode):
            if status.st_ino in self._linked:
                return
            self._linked.add(status.st_ino)
        self._blocks += status.st_blocks
