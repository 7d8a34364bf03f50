"""Makes a live volume equal to a snapshot, rewriting only what differs.

Files come from our own objects and are written relative to the descriptor of their directory,
never over an existing name and never through a link. The result is described from the bytes as
they were written, so that its id can be compared with the snapshot's.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from policies import EntryKind, show_path
from sandbox.git.descriptors import DirectoryStack
from sandbox.git.failures import translated_os_errors
from sandbox.git.manifest import Directory, Entry, TreeState, path_order
from sandbox.git.objects import GitObject, ObjectReader
from sandbox.git.removal import remove_entry
from sandbox.git.trees import blob_id, new_blob_hash
from sandbox.git.walker import now_settled_ns, signature_of

_CREATE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_EMPTY: Final = Directory(0, 0)


class Restorer:
    """Writes files below one directory."""

    def __init__(
        self,
        reader: ObjectReader,
        *,
        top: int,
        owner: tuple[int, int],
        spared: Collection[str] = (),
    ) -> None:
        """Remember what to write with.

        Args:
            reader: of the snapshot's objects.
            top: descriptor of the directory that holds workspace, home and tmp.
            owner: uid and gid that files get.
            spared: paths, as shown, that the snapshot names as left out: what it does not hold
                it cannot bring back, so it stays.
        """
        self._reader = reader
        self._spared = frozenset(spared)
        self._top = top
        self._owner = owner
        self._gives_away = os.geteuid() == 0

    def bring(self, live: TreeState, target: TreeState) -> TreeState:
        """Make the live files equal to the target.

        Args:
            live: what is there, as just walked.
            target: what shall be there.

        Returns:
            The state as it was written, signatures included.

        Raises:
            SnapshotError: the operating system refuses something.
            DiskFullError: there is no room.
            RepositoryError: an object is missing.
        """
        order = sorted(target.directories, key=path_order)
        with translated_os_errors("restoring"):
            plan: list[tuple[bytes, bytes, Entry]] = []
            made: dict[bytes, dict[bytes, Entry]] = {}
            with DirectoryStack(self._top) as stack:
                for path in order:
                    made[path] = self._prepare(stack, path, (live, target), plan)
            self._write_files(plan, made)
            finished: dict[bytes, Directory] = {}
            with DirectoryStack(self._top) as stack:
                for path in reversed(order):
                    descriptor = stack.open(path)
                    want = target.directories[path]
                    finished[path] = self._finish(descriptor, want, made[path])
        directories = {path: finished[path] for path in order}
        return TreeState(directories, target.ignored, now_settled_ns())

    def _prepare(
        self,
        stack: DirectoryStack,
        path: bytes,
        states: tuple[TreeState, TreeState],
        plan: list[tuple[bytes, bytes, Entry]],
    ) -> dict[bytes, Entry]:
        """Remove what is too much or wrong, make directories and links, plan the files."""
        live, target = states
        want = target.directories[path]
        have = live.directories.get(path, _EMPTY)
        descriptor = stack.open(path)
        for name in have.left_out:
            if name in want.entries or show_path(path + b"/" + name) not in self._spared:
                remove_entry(descriptor, name)
        kept = dict(_kept_entries(descriptor, have, want))
        for name in have.entries:
            if name not in kept:
                remove_entry(descriptor, name)
        for name, entry in want.entries.items():
            if name in kept:
                continue
            if entry.kind is EntryKind.DIRECTORY:
                os.mkdir(name, 0o700, dir_fd=descriptor)
                kept[name] = entry
            elif entry.kind is EntryKind.SYMLINK:
                kept[name] = self._write_link(descriptor, name, entry)
            else:
                plan.append((path, name, entry))
        return kept

    def _write_link(self, parent: int, name: bytes, entry: Entry) -> Entry:
        os.symlink(entry.target, name, dir_fd=parent)
        self._chown(parent, name)
        times = (entry.mtime_ns, entry.mtime_ns)
        os.utime(name, ns=times, dir_fd=parent, follow_symlinks=False)
        status = os.stat(name, dir_fd=parent, follow_symlinks=False)
        target = os.fsencode(os.readlink(name, dir_fd=parent))
        return replace(
            entry,
            size=status.st_size,
            oid=blob_id(target),
            target=target,
            mtime_ns=status.st_mtime_ns,
            signature=signature_of(status),
        )

    def _write_files(
        self, plan: list[tuple[bytes, bytes, Entry]], made: dict[bytes, dict[bytes, Entry]]
    ) -> None:
        blobs = self._reader.each(entry.oid for _, _, entry in plan)
        with DirectoryStack(self._top) as stack:
            for (path, name, entry), blob in zip(plan, blobs, strict=True):
                made[path][name] = self._write_file(stack.open(path), name, (entry, blob))

    def _write_file(self, parent: int, name: bytes, content: tuple[Entry, GitObject]) -> Entry:
        entry, blob = content
        descriptor = os.open(name, _CREATE, 0o600, dir_fd=parent)
        try:
            written = new_blob_hash(blob.size)
            for chunk in blob.chunks:
                written.update(chunk)
                _write_all(descriptor, chunk)
            return self._seal(descriptor, entry, written.hexdigest())
        finally:
            os.close(descriptor)

    def _seal(self, descriptor: int, entry: Entry, oid: str) -> Entry:
        """Give a new file its owner, mode and time; describe it as the kernel shows it."""
        if self._gives_away:
            os.fchown(descriptor, *self._owner)
        os.fchmod(descriptor, entry.mode)  # after the chown, which clears set-id bits
        os.utime(descriptor, ns=(entry.mtime_ns, entry.mtime_ns))
        status = os.fstat(descriptor)
        return Entry(  # `replace` takes four times as long, a second for 100,000 files
            EntryKind.FILE,
            stat.S_IMODE(status.st_mode),
            status.st_size,
            oid,
            b"",
            status.st_mtime_ns,
            signature_of(status),
        )

    def _finish(self, descriptor: int, want: Directory, entries: dict[bytes, Entry]) -> Directory:
        """Give a directory its owner, mode and time, once all in it is done."""
        status = os.fstat(descriptor)
        if self._gives_away and (status.st_uid, status.st_gid) != self._owner:
            os.fchown(descriptor, *self._owner)
        if (stat.S_IMODE(status.st_mode), status.st_mtime_ns) != (want.mode, want.mtime_ns):
            os.fchmod(descriptor, want.mode)
            os.utime(descriptor, ns=(want.mtime_ns, want.mtime_ns))
        status = os.fstat(descriptor)
        return Directory(stat.S_IMODE(status.st_mode), status.st_mtime_ns, entries)

    def _chown(self, parent: int, name: bytes) -> None:
        if self._gives_away:
            os.chown(name, *self._owner, dir_fd=parent, follow_symlinks=False)


def _kept_entries(parent: int, have: Directory, want: Directory) -> Iterator[tuple[bytes, Entry]]:
    """Yield what can stay, with modes and times put right."""
    for name, entry in have.entries.items():
        wanted = want.entries.get(name)
        if wanted is None or not wanted.same_content(entry):
            continue
        if entry.kind is EntryKind.FILE and entry.signature[-1] > 1:
            continue  # a write to the other name of the inode would change this one too
        if (wanted.mode, wanted.mtime_ns) == (entry.mode, entry.mtime_ns):
            yield name, entry
        elif entry.kind is EntryKind.FILE:
            yield name, _put_right(parent, name, wanted)


def _put_right(parent: int, name: bytes, wanted: Entry) -> Entry:
    handle = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    try:
        place = Path(f"/proc/self/fd/{handle}")
        place.chmod(wanted.mode)
        os.utime(place, ns=(wanted.mtime_ns, wanted.mtime_ns))
        status = os.fstat(handle)
    finally:
        os.close(handle)
    return replace(
        wanted,
        mode=stat.S_IMODE(status.st_mode),
        mtime_ns=status.st_mtime_ns,
        signature=signature_of(status),
    )


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
