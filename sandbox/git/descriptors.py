"""Opens directories relative to a descriptor, one component at a time, never through a link."""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType
from typing import Final, Self

_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_ANY: Final = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_OWNER_ALL: Final = 0o700


def open_directory(parent: int, name: bytes) -> int:
    """Open a directory that is not a link; one whose mode keeps us out is opened up first.

    Raises:
        OSError: it is gone, no directory, or a link.
    """
    try:
        return os.open(name, _DIRECTORY, dir_fd=parent)
    except PermissionError:
        widen_mode(parent, name)
        return os.open(name, _DIRECTORY, dir_fd=parent)


def widen_mode(parent: int, name: bytes) -> None:
    """Give the owner every permission on an entry that is not a link (we are its owner)."""
    handle = os.open(name, _ANY, dir_fd=parent)
    try:
        mode = os.fstat(handle).st_mode & 0o7777
        Path(f"/proc/self/fd/{handle}").chmod(mode | _OWNER_ALL)
    finally:
        os.close(handle)


class DirectoryStack:
    """Opens directories below one root; neighbours share the descriptors of their parents.

    Fast when asked in depth-first order. Holds one descriptor per level.
    """

    def __init__(self, root: int) -> None:
        self._root = root
        self._open: list[tuple[bytes, int]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        while self._open:
            os.close(self._open.pop()[1])

    def open(self, path: bytes) -> int:
        """Return a descriptor of a directory; it stays ours and lives until the next call.

        Raises:
            OSError: a component is gone, no directory, or a link.
        """
        parts = path.split(b"/")
        shared = 0
        for (name, _), part in zip(self._open, parts, strict=False):
            if name != part:
                break
            shared += 1
        while len(self._open) > shared:
            os.close(self._open.pop()[1])
        for part in parts[shared:]:
            parent = self._open[-1][1] if self._open else self._root
            self._open.append((part, self._open_writable(parent, part)))
        return self._open[-1][1]

    @staticmethod
    def _open_writable(parent: int, name: bytes) -> int:
        descriptor = open_directory(parent, name)
        if os.geteuid() != 0:
            mode = os.fstat(descriptor).st_mode & 0o7777
            if mode & _OWNER_ALL != _OWNER_ALL:
                os.fchmod(descriptor, mode | _OWNER_ALL)
        return descriptor
