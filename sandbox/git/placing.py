"""Writes files into a user's checkout so that a failure half way undoes all of it.

New files are made in a staging directory of our own at the checkout's root. Then every file that
is to be replaced is moved there, looked at once more, and only then the new ones are linked to
their places, which fails where something has appeared meanwhile. So nothing of the user's is ever
overwritten: until the end it is in the staging directory, and what cannot be put back stays there.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from types import TracebackType
from typing import Final, Self

from sandbox.errors import CheckoutConflictError
from sandbox.git.checkout_check import (
    READ_DIRECTORY,
    Blocked,
    exists,
    holds_entry,
    open_parent,
)
from sandbox.git.objects import GitObject, ObjectReader
from sandbox.git.touched import TouchedPath
from sandbox.git.trees import MODE_PROGRAM, MODE_SYMLINK, TreeEntry

_STAGING: Final = b".forkyard-apply-"
_NEW: Final = b"new-"
_OLD: Final = b"old-"
_MAKE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_STAYS: Final = frozenset({errno.ENOTEMPTY, errno.EEXIST, errno.EBUSY, errno.ENOENT})
"""What rmdir(2) says of a directory that is in use, or gone."""

_EXECUTABLE: Final = 0o111
_READABLE: Final = 0o444


class Placement:
    """One change of a checkout under way; leaving it by an error undoes what was done."""

    def __init__(self, root: int, location: str) -> None:
        """Make the staging directory.

        Raises:
            OSError: the checkout cannot be written.
        """
        self._root = root
        self._location = location
        self.staging_name = _STAGING + secrets.token_hex(6).encode()
        os.mkdir(self.staging_name, 0o700, dir_fd=root)
        self._staging = os.open(self.staging_name, READ_DIRECTORY, dir_fd=root)
        self._undo = ExitStack()
        self._done = False
        self.kept = 0
        """How many files of the user are still in the staging directory: something took their
        places while we were undoing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self._undo.close()
        finally:  # also where undoing fails: what is set aside is never deleted then
            self.kept = 0 if self._done else len(self._list_staged(_OLD))
            self._remove_staging()

    def write(self, touched: Sequence[TouchedPath], reader: ObjectReader) -> None:
        """Make all changes, or none.

        Raises:
            CheckoutConflictError: something changed since it was checked; all is undone.
            OSError, RepositoryError: a file cannot be read or written; all is undone.
        """
        self._make_new(touched, reader)
        for number, one in enumerate(touched):
            if one.old is not None:
                self._set_aside(number, one, one.old)
        self._remove_emptied(touched)
        for number, one in enumerate(touched):
            if one.new is not None:
                self._place(number, one)
        self._undo.pop_all()
        self._done = True

    def _make_new(self, touched: Sequence[TouchedPath], reader: ObjectReader) -> None:
        wanted = [(number, one.new) for number, one in enumerate(touched) if one.new is not None]
        blobs = reader.each([entry.oid for _, entry in wanted])
        for (number, entry), blob in zip(wanted, blobs, strict=True):
            self._make_one(_new_name(number), entry, blob)

    def _make_one(self, name: bytes, entry: TreeEntry, blob: GitObject) -> None:
        if entry.mode == MODE_SYMLINK:
            os.symlink(blob.read(), name, dir_fd=self._staging)
        else:
            mode = 0o777 if entry.mode == MODE_PROGRAM else 0o666  # less the user's umask
            with os.fdopen(os.open(name, _MAKE, mode, dir_fd=self._staging), "wb") as file:
                for chunk in blob.chunks:
                    file.write(chunk)
                file.flush()
                os.fsync(file.fileno())
        _give(self._staging, name, os.fstat(self._root))

    def _set_aside(self, number: int, one: TouchedPath, expected: TreeEntry) -> None:
        aside = _old_name(number)
        with self._parent_of(one.path) as parent:
            try:
                os.rename(
                    one.name, aside, src_dir_fd=self._need(parent, one), dst_dir_fd=self._staging
                )
            except FileNotFoundError as error:
                raise self._conflict(one, "it went away meanwhile") from error
        self._undo.callback(self._put_back, aside, one)
        if not holds_entry(self._staging, aside, expected):
            raise self._conflict(one, "it was changed meanwhile")
        if one.new is not None and MODE_SYMLINK not in (expected.mode, one.new.mode):
            self._keep_rights(number, program=one.new.mode == MODE_PROGRAM)

    def _keep_rights(self, number: int, *, program: bool) -> None:
        """Give a new file the owner and permissions of the one that it replaces."""
        old = os.stat(_old_name(number), dir_fd=self._staging, follow_symlinks=False)
        mode = old.st_mode & 0o777 & ~_EXECUTABLE
        if program:
            mode |= (mode & _READABLE) >> 2
        _give(self._staging, _new_name(number), old)
        os.chmod(_new_name(number), mode, dir_fd=self._staging)

    def _put_back(self, aside: bytes, one: TouchedPath) -> None:
        """Undo a setting aside; a file whose place is taken, or gone, stays where it is."""
        with self._parent_of(one.path) as parent, suppress(OSError):
            if parent is not None and not exists(parent, one.name):
                os.rename(aside, one.name, src_dir_fd=self._staging, dst_dir_fd=parent)

    def _remove_emptied(self, touched: Sequence[TouchedPath]) -> None:
        """Remove directories that held nothing but deleted files, as git does."""
        kept = {above for one in touched if one.new is not None for above in one.parents}
        left = {above for one in touched if one.old is not None for above in one.parents} - kept
        for path in sorted(left, key=lambda path: path.count(b"/"), reverse=True):
            with self._parent_of(path) as parent:
                if parent is not None:
                    self._remove_if_empty(parent, path)

    def _remove_if_empty(self, parent: int, path: bytes) -> None:
        try:
            found = os.stat(_last(path), dir_fd=parent, follow_symlinks=False)
            os.rmdir(_last(path), dir_fd=parent)
        except OSError as error:
            if error.errno not in _STAYS:
                raise
            return
        self._undo.callback(self._make_again, path, found)

    def _make_again(self, path: bytes, found: os.stat_result) -> None:
        with self._parent_of(path) as parent, suppress(OSError):  # where it is there again
            if parent is not None:
                os.mkdir(_last(path), 0o700, dir_fd=parent)
                _give(parent, _last(path), found)
                os.chmod(_last(path), stat.S_IMODE(found.st_mode), dir_fd=parent)

    def _place(self, number: int, one: TouchedPath) -> None:
        for above in one.parents:
            self._make_directory(above)
        with self._parent_of(one.path) as parent:
            try:
                os.link(
                    _new_name(number),
                    one.name,
                    src_dir_fd=self._staging,
                    dst_dir_fd=self._need(parent, one),
                    follow_symlinks=False,
                )
            except FileExistsError as error:
                raise self._conflict(one, "something is in the way") from error
        self._undo.callback(self._take_away, _new_name(number), one)

    def _make_directory(self, path: bytes) -> None:
        with self._parent_of(path) as parent, suppress(FileExistsError):
            if parent is not None:
                os.mkdir(_last(path), dir_fd=parent)
                self._undo.callback(self._remove_directory, path)
                _give(parent, _last(path), os.fstat(self._root))

    def _take_away(self, new: bytes, one: TouchedPath) -> None:
        """Undo a placing, unless the place holds another file by now."""
        with self._parent_of(one.path) as parent, suppress(FileNotFoundError):
            if parent is not None:
                ours = os.stat(new, dir_fd=self._staging, follow_symlinks=False)
                there = os.stat(one.name, dir_fd=parent, follow_symlinks=False)
                if os.path.samestat(ours, there):
                    os.unlink(one.name, dir_fd=parent)

    def _remove_directory(self, path: bytes) -> None:
        with self._parent_of(path) as parent, suppress(OSError):  # where it holds others' files
            if parent is not None:
                os.rmdir(_last(path), dir_fd=parent)

    @contextmanager
    def _parent_of(self, path: bytes) -> Iterator[int | None]:
        """Open the directory of a path; None where the way there is blocked."""
        parent = open_parent(self._root, path)
        if isinstance(parent, Blocked):
            yield None
            return
        try:
            yield parent
        finally:
            os.close(parent)

    def _need(self, parent: int | None, one: TouchedPath) -> int:
        if parent is None:
            raise self._conflict(one, "its directory went away meanwhile")
        return parent

    def _conflict(self, one: TouchedPath, problem: str) -> CheckoutConflictError:
        return CheckoutConflictError(self._location, [(one.path, problem)])

    def _remove_staging(self) -> None:
        try:
            for name in self._list_staged(_NEW if self.kept else b""):
                os.unlink(name, dir_fd=self._staging)
            if not self.kept:
                os.rmdir(self.staging_name, dir_fd=self._root)
        finally:
            os.close(self._staging)

    def _list_staged(self, prefix: bytes) -> list[bytes]:
        with os.scandir(self._staging) as listing:
            names = [os.fsencode(item.name) for item in listing]
        return [name for name in names if name.startswith(prefix)]


def _new_name(number: int) -> bytes:
    return _NEW + b"%d" % number


def _old_name(number: int) -> bytes:
    return _OLD + b"%d" % number


def _last(path: bytes) -> bytes:
    return path.rpartition(b"/")[2]


def _give(directory: int, name: bytes, like: os.stat_result) -> None:
    """Where we are root: let a file of ours belong to whom the checkout belongs to."""
    if os.geteuid() == 0:
        os.chown(name, like.st_uid, like.st_gid, dir_fd=directory, follow_symlinks=False)
