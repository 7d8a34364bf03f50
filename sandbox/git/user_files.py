"""Looks into a checkout that a user works in: follows no link, changes nothing, runs nothing.

It may hold anything: pipes, repositories of its own, folders that are closed to us. What cannot
be taken is told with the reason, and who asks decides whether that matters.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from policies import show_path
from sandbox.errors import SourceError
from sandbox.git.names import DOT_GIT, is_git_name
from sandbox.git.trees import MODE_FILE, MODE_PROGRAM, MODE_SYMLINK

_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_KINDS: Final = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a character device",
    stat.S_IFBLK: "a block device",
}
_REPOSITORY: Final = "a repository of its own"
_DEPTH: Final = 200
_CHUNK_BYTES: Final = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckoutLimits:
    """How much of a user's checkout is looked at and taken."""

    entries: int = 2_000_000
    """Names in all folders together."""
    file_bytes: int = 256 * 1024 * 1024
    total_bytes: int = 4 * 1024 * 1024 * 1024
    """Of all files that are taken."""


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A name in a checkout."""

    status: os.stat_result
    problem: str = ""
    """Why it is nothing to take."""

    @property
    def is_folder(self) -> bool:
        """Tell whether it is a folder, which is listed only where nobody can look inside."""
        return stat.S_ISDIR(self.status.st_mode)

    @property
    def mode(self) -> int:
        """Its mode in a git tree."""
        if stat.S_ISLNK(self.status.st_mode):
            return MODE_SYMLINK
        return MODE_PROGRAM if self.status.st_mode & stat.S_IXUSR else MODE_FILE


class UserFiles:
    """The files of one checkout, reached from the descriptor of its root."""

    def __init__(self, root: int, shown: str, limits: CheckoutLimits) -> None:
        self._root = root
        self._shown = shown
        self._limits = limits

    def walk(self, *, tracked: frozenset[bytes], whole: bool) -> dict[bytes, FoundFile]:
        """Return what is there by path: files, links, and what cannot be taken.

        Args:
            tracked: the folders that hold tracked files.
            whole: look into all folders, not into those alone.

        Raises:
            SourceError: there are too many names.
        """
        found: dict[bytes, FoundFile] = {}
        folders = [b""]
        seen = 0
        while folders:
            folder = folders.pop()
            for path, one in self._list(folder, must=folder in tracked):
                seen += 1
                if one.is_folder and not one.problem:
                    if whole or path in tracked:
                        folders.append(path)
                else:
                    found[path] = one
            if seen > self._limits.entries:
                raise SourceError(self._shown, f"it holds more than {self._limits.entries} names")
        return found

    @contextmanager
    def opened(self, path: bytes) -> Iterator[int]:
        """Open a regular file.

        Raises:
            SourceError: it cannot be opened, is none, or is too large.
        """
        try:
            with self._folder(path.rpartition(b"/")[0]) as folder:
                descriptor = os.open(path.rpartition(b"/")[2], _FILE, dir_fd=folder)
        except OSError as error:
            raise self.refuse(path, f"cannot be read: {error.strerror}") from error
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise self.refuse(path, "is no regular file any more")
            if status.st_size > self._limits.file_bytes:
                size = f"has {status.st_size} bytes, more than {self._limits.file_bytes}"
                raise self.refuse(path, f"{size}; ignore it, or mount it into the task")
            yield descriptor
        finally:
            os.close(descriptor)

    def read_link(self, path: bytes) -> bytes:
        """Return the target of a link.

        Raises:
            SourceError: it is none any more.
        """
        above, _, name = path.rpartition(b"/")
        try:
            with self._folder(above) as folder:
                return os.fsencode(os.readlink(name, dir_fd=folder))
        except OSError as error:
            raise self.refuse(path, f"cannot be read: {error.strerror}") from error

    def read_exactly(self, path: bytes, descriptor: int, size: int) -> Iterator[bytes]:
        """Yield a file's bytes in pieces.

        Raises:
            SourceError: it has fewer.
        """
        left = size
        while left:
            chunk = os.read(descriptor, min(left, _CHUNK_BYTES))
            if not chunk:
                raise self.refuse(path, "changes while it is read; try again")
            left -= len(chunk)
            yield chunk

    def refuse(self, path: bytes, problem: str) -> SourceError:
        """Return the error about one file."""
        return SourceError(self._shown, f"{show_path(path)!r} {problem}")

    def _list(self, folder: bytes, *, must: bool) -> Iterator[tuple[bytes, FoundFile]]:
        prefix = folder + b"/" if folder else b""
        with self._folder(folder) as descriptor:
            with os.scandir(descriptor) as items:
                names = [os.fsencode(item.name) for item in items]
            if folder and not must and DOT_GIT in names:
                yield folder, FoundFile(os.fstat(descriptor), _REPOSITORY)
                return
            for name in names:
                if name == DOT_GIT:
                    continue
                try:
                    status = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
                except FileNotFoundError:
                    continue  # the user is at work
                problem = self._judge(descriptor, name, status)
                if prefix.count(b"/") >= _DEPTH:
                    problem = f"deeper than {_DEPTH} folders"
                yield prefix + name, FoundFile(status, problem)

    def _judge(self, folder: int, name: bytes, status: os.stat_result) -> str:
        kind = stat.S_IFMT(status.st_mode)
        if not is_git_name(name, symlink=kind == stat.S_IFLNK):
            return "a name that git refuses"
        if kind == stat.S_IFDIR:
            try:
                os.close(os.open(name, _DIRECTORY, dir_fd=folder))
            except OSError as error:
                return f"a folder that cannot be read: {error.strerror}"
        return _KINDS.get(kind, "")

    @contextmanager
    def _folder(self, path: bytes) -> Iterator[int]:
        descriptor = os.dup(self._root)
        try:
            for part in path.split(b"/") if path else ():
                below = os.open(part, _DIRECTORY, dir_fd=descriptor)
                os.close(descriptor)
                descriptor = below
            yield descriptor
        finally:
            os.close(descriptor)
