"""Walks a live volume without trusting it: no link is followed, nothing in it is obeyed.

Every name is opened relative to the descriptor of its directory. Bytes are read only where
inode, size, times or mode moved since the former walk. Nothing may be running meanwhile.
"""

from __future__ import annotations

import os
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, Protocol

from policies import EntryKind
from sandbox.errors import SnapshotError
from sandbox.git.descriptors import open_directory, widen_mode
from sandbox.git.failures import translated_os_errors
from sandbox.git.manifest import (
    ROOTS,
    SUBDIRECTORY,
    Directory,
    DirectoryDelta,
    Entry,
    Signature,
    TreeState,
    path_order,
)
from sandbox.git.stream import read_exactly
from sandbox.git.trees import blob_id, new_blob_hash

_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_WHOLE_BYTES: Final = 1024 * 1024
"""Files up to this size are read whole; larger ones are streamed."""
_TRIES: Final = 3
_LISTABLE: Final = 0o500
_NAMES_ENCODING: Final = sys.getfilesystemencoding()  # what os.fsencode uses, but slower
_SETTLE_NS: Final = 20_000_000  # two ticks of a 100 Hz kernel: file times are no finer
_SPECIAL: Final = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a character device",
    stat.S_IFBLK: "a block device",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class WalkLimits:
    """How much a walk takes in."""

    entries: int = 2_000_000
    """Names in all directories together; more stop the snapshot."""
    depth: int = 200
    """Directories inside each other; deeper ones are left out."""
    file_bytes: int = 256 * 1024 * 1024
    """Larger files are left out."""


class ContentSink(Protocol):
    """Takes the bytes of files that moved."""

    def put_bytes(self, data: bytes) -> str:
        """Take a whole blob; return its id."""
        ...

    def put_file(self, descriptor: int, size: int) -> str:
        """Take the next `size` bytes of a file; return the blob's id."""
        ...


class HashingSink:
    """Names contents without keeping them."""

    def put_bytes(self, data: bytes) -> str:
        """Return the blob's id."""
        return blob_id(data)

    def put_file(self, descriptor: int, size: int) -> str:
        """Return the blob's id.

        Raises:
            SnapshotError: the file has fewer bytes.
        """
        blob = new_blob_hash(size)
        for chunk in read_exactly(descriptor, size):
            blob.update(chunk)
        return blob.hexdigest()


@dataclass(frozen=True, slots=True)
class Walked:
    """What a walk found."""

    state: TreeState
    deltas: tuple[DirectoryDelta, ...]
    """Directories whose content, attributes or times differ from the former state."""


def signature_of(status: os.stat_result) -> Signature:
    """Return what must be equal for a file to be taken as unchanged."""
    return (
        status.st_ino,
        status.st_size,
        status.st_mtime_ns,
        status.st_ctime_ns,
        status.st_mode,
        status.st_nlink,
    )


def now_settled_ns() -> int:
    """Return the instant before which a file's times can be trusted to tell changes apart."""
    return time.time_ns() - _SETTLE_NS


def walk(top: int, former: TreeState, *, sink: ContentSink, limits: WalkLimits) -> Walked:
    """Look at everything below the three roots of a volume.

    Args:
        top: descriptor of the directory that holds `workspace`, `home` and `tmp`.
        former: the state that the last walk or restore left.
        sink: takes the bytes that moved.
        limits: how much is taken in.

    Raises:
        SnapshotError: too many entries, a file that keeps changing, or an unreadable one.
        DiskFullError: the sink has no room.
    """
    settled = now_settled_ns()
    walker = _Walker(former, sink, limits)
    with translated_os_errors("walking the workspace"):
        for root in ROOTS:
            walker.walk_root(top, root)
    deltas = walker.deltas + [
        DirectoryDelta(path, directory, None)
        for path, directory in former.directories.items()
        if path not in walker.found
    ]
    deltas.sort(key=lambda delta: path_order(delta.path))
    state = TreeState(walker.found, former.ignored, settled)
    return Walked(state, tuple(deltas))


@dataclass(slots=True)
class _Frame:
    path: bytes
    descriptor: int
    closed_mode: int | None = None
    """The mode to put back, where it had to be opened up."""
    pending: list[bytes] = field(default_factory=list)

    def close(self) -> None:
        if self.closed_mode is not None:
            os.fchmod(self.descriptor, self.closed_mode)
        os.close(self.descriptor)


class _Walker:
    """One walk under way."""

    def __init__(self, former: TreeState, sink: ContentSink, limits: WalkLimits) -> None:
        self.found: dict[bytes, Directory] = {}
        self.deltas: list[DirectoryDelta] = []
        self._former = former
        self._sink = sink
        self._limits = limits
        self._seen = 0

    def walk_root(self, top: int, root: bytes) -> None:
        """Walk one root, depth first, with one open descriptor per level."""
        frames: list[_Frame] = []
        try:
            self._enter(frames, top, root)
            while frames:
                frame = frames[-1]
                if frame.pending:
                    self._enter(frames, frame.descriptor, frame.pending.pop())
                else:
                    frames.pop().close()
        finally:
            for frame in reversed(frames):
                frame.close()

    def _enter(self, frames: list[_Frame], parent: int, name: bytes) -> None:
        path = frames[-1].path + b"/" + name if frames else name
        status = os.stat(name, dir_fd=parent, follow_symlinks=False)
        closed_mode: int | None = None
        if os.geteuid() != 0 and status.st_mode & _LISTABLE != _LISTABLE:
            closed_mode = stat.S_IMODE(status.st_mode)
            widen_mode(parent, name)
        frames.append(_Frame(path, open_directory(parent, name), closed_mode))
        too_deep = len(frames) >= self._limits.depth
        self._take_in(frames[-1], status, too_deep=too_deep)

    def _take_in(self, frame: _Frame, status: os.stat_result, *, too_deep: bool) -> None:
        former = self._former.directories.get(frame.path)
        entries: dict[bytes, Entry] = {}
        left_out: dict[bytes, str] = {}
        listing = _Listing(frame.descriptor, status.st_dev, too_deep=too_deep)
        self._list(listing, former, (entries, left_out))
        frame.pending = [
            name for name, entry in entries.items() if entry.kind is EntryKind.DIRECTORY
        ]
        now = Directory(stat.S_IMODE(status.st_mode), status.st_mtime_ns, entries, left_out)
        self.found[frame.path] = now
        if now != former:
            self.deltas.append(DirectoryDelta(frame.path, former, now))

    def _list(
        self,
        listing: _Listing,
        former: Directory | None,
        result: tuple[dict[bytes, Entry], dict[bytes, str]],
    ) -> None:
        """List one directory: one lstat per name, and nothing else where nothing moved."""
        known = former.entries if former is not None else {}
        settled = self._former.settled_before_ns
        entries, left_out = result
        with os.scandir(listing.descriptor) as items:
            for item in items:
                name = item.name.encode(_NAMES_ENCODING, "surrogateescape")
                status = item.stat(follow_symlinks=False)
                old = known.get(name)
                if (
                    old is not None
                    and old.signature == signature_of(status)
                    and status.st_ctime_ns < settled
                ):
                    entries[name] = old
                    continue
                found = self._look_at(listing, name, status)
                if isinstance(found, Entry):
                    entries[name] = found
                else:
                    left_out[name] = found
        self._count(len(entries) + len(left_out))

    def _count(self, names: int) -> None:
        self._seen += names
        if self._seen > self._limits.entries:
            raise SnapshotError(f"more than {self._limits.entries} files and directories")

    def _look_at(self, listing: _Listing, name: bytes, status: os.stat_result) -> Entry | str:
        """Return the entry, or the reason why no snapshot holds it."""
        kind = stat.S_IFMT(status.st_mode)
        if kind == stat.S_IFDIR:
            return listing.judge_directory(status, self._limits)
        if kind == stat.S_IFLNK:
            target = os.readlink(name, dir_fd=listing.descriptor)
            return _link_entry(os.fsencode(target), status, self._sink)
        if kind != stat.S_IFREG:
            return _SPECIAL.get(kind, "no regular file")
        if status.st_size > self._limits.file_bytes:
            return f"larger than {self._limits.file_bytes} bytes ({status.st_size})"
        return self._read(listing.descriptor, name)

    def _read(self, parent: int, name: bytes) -> Entry | str:
        for _ in range(_TRIES):
            with _opened_file(parent, name) as descriptor:
                before = os.fstat(descriptor)
                if not stat.S_ISREG(before.st_mode):
                    return "no regular file"
                oid = self._put(descriptor, before.st_size)
                if oid and signature_of(os.fstat(descriptor)) == signature_of(before):
                    return _file_entry(oid, before)
        raise SnapshotError(f"file {name!r} keeps changing while it is read")

    def _put(self, descriptor: int, size: int) -> str:
        """Hand a file to the sink; return "" where its size is not what was said."""
        if size > self._limits.file_bytes:
            return ""
        if size > _WHOLE_BYTES:
            return self._sink.put_file(descriptor, size)
        data = _read_up_to(descriptor, size + 1)
        return self._sink.put_bytes(data) if len(data) == size else ""


@dataclass(frozen=True, slots=True)
class _Listing:
    """A directory that is being listed."""

    descriptor: int
    device: int
    too_deep: bool = field(kw_only=True)

    def judge_directory(self, status: os.stat_result, limits: WalkLimits) -> Entry | str:
        if status.st_dev != self.device:
            return "another file system"
        if self.too_deep:
            return f"deeper than {limits.depth} directories"
        return SUBDIRECTORY


def _file_entry(oid: str, status: os.stat_result) -> Entry:
    return Entry(
        EntryKind.FILE,
        stat.S_IMODE(status.st_mode),
        status.st_size,
        oid,
        b"",
        status.st_mtime_ns,
        signature_of(status),
    )


def _link_entry(target: bytes, status: os.stat_result, sink: ContentSink) -> Entry:
    return Entry(
        EntryKind.SYMLINK,
        0,
        len(target),
        sink.put_bytes(target),
        target,
        status.st_mtime_ns,
        signature_of(status),
    )


def _read_up_to(descriptor: int, limit: int) -> bytes:
    parts: list[bytes] = []
    left = limit
    while left and (part := os.read(descriptor, left)):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


@contextmanager
def _opened_file(parent: int, name: bytes) -> Iterator[int]:
    """Open a file; a mode that keeps its owner out is put back afterwards."""
    closed_mode: int | None = None
    try:
        descriptor = os.open(name, _READ, dir_fd=parent)
    except PermissionError:
        closed_mode = stat.S_IMODE(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode)
        widen_mode(parent, name)
        descriptor = os.open(name, _READ, dir_fd=parent)
        os.fchmod(descriptor, closed_mode)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
