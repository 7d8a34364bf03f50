"""Looks at a user's checkout before anything is written to it; reads only what it must."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from policies import show_path
from sandbox.git.names import DOT_GIT
from sandbox.git.touched import TouchedPath, parents_of
from sandbox.git.trees import (
    MODE_PROGRAM,
    MODE_SYMLINK,
    TreeEntry,
    blob_id,
    new_blob_hash,
)

READ_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CHUNK_BYTES: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Blocked:
    """Where the way to a path ends before its directory."""

    component: bytes
    problem: str
    """Empty where there is nothing of that name yet."""


def open_parent(root: int, path: bytes) -> int | Blocked:
    """Open the directory that holds a path, never through a link; the caller closes it."""
    current = os.dup(root)
    for component in parents_of(path):
        try:
            below = os.open(component.rpartition(b"/")[2], READ_DIRECTORY, dir_fd=current)
        except FileNotFoundError:
            return Blocked(component, "")
        except OSError as error:
            shown = show_path(component)
            return Blocked(component, f"{shown!r} is no directory to enter: {error.strerror}")
        finally:
            os.close(current)
        current = below
        if exists(current, DOT_GIT):
            os.close(current)
            return Blocked(component, f"{show_path(component)!r} is a repository of its own")
    return current


def holds_entry(directory: int, name: bytes, entry: TreeEntry) -> bool:
    """Tell whether a name in a directory is exactly what a git tree says."""
    if entry.mode == MODE_SYMLINK:
        try:
            return blob_id(os.readlink(name, dir_fd=directory)) == entry.oid
        except OSError:
            return False
    try:
        descriptor = os.open(name, _READ_FILE, dir_fd=directory)
    except OSError:
        return False
    try:
        return _is_file(descriptor, entry)
    finally:
        os.close(descriptor)


def exists(directory: int, name: bytes) -> bool:
    """Tell whether a directory has an entry of that name, whatever it is."""
    try:
        os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


class CheckoutCheck:
    """Finds what of the user's would be lost, or written through."""

    def __init__(self, root: int, touched: Sequence[TouchedPath]) -> None:
        self._root = root
        self._replaced = frozenset(one.path for one in touched if one.old is not None)
        self._emptied = frozenset(above for path in self._replaced for above in parents_of(path))

    def find_problem(self, one: TouchedPath) -> str:
        """Return why a path cannot be written; empty where it can."""
        if one.problem:
            return one.problem
        parent = open_parent(self._root, one.path)
        if isinstance(parent, Blocked):
            return self._judge_blocked(one, parent)
        try:
            return self._compare(parent, one)
        finally:
            os.close(parent)

    def _judge_blocked(self, one: TouchedPath, blocked: Blocked) -> str:
        if blocked.problem and blocked.component not in self._replaced:
            return blocked.problem
        return "" if one.old is None else "it is gone from the checkout"

    def _compare(self, parent: int, one: TouchedPath) -> str:
        if one.old is not None:
            same = holds_entry(parent, one.name, one.old)
            return "" if same else "it is not as the base commit has it"
        if not exists(parent, one.name):
            return ""
        inside = next(self._list_in_the_way(parent, one), None)
        return "" if inside is None else f"{show_path(inside)!r} is in the way"

    def _list_in_the_way(self, parent: int, one: TouchedPath) -> Iterator[bytes]:
        """Yield what stays at the place of a new file once all replaced files are gone."""
        found = os.stat(one.name, dir_fd=parent, follow_symlinks=False)
        if not stat.S_ISDIR(found.st_mode):
            yield one.path
            return
        above = one.path.removesuffix(one.name)
        for top, names, files, descriptor in os.fwalk(one.name, dir_fd=parent):
            prefix = above + top + b"/"
            if prefix[:-1] not in self._emptied:
                yield prefix[:-1]
            links = [name for name in names if _is_link(descriptor, name)]
            yield from (prefix + n for n in (*files, *links) if prefix + n not in self._replaced)


def list_related(touched: Iterable[TouchedPath], others: frozenset[bytes]) -> list[TouchedPath]:
    """Return the touched paths that are among others, above or below one of them."""
    above_others = {above for other in others for above in parents_of(other)}
    return [
        one
        for one in touched
        if one.path in others
        or one.path in above_others
        or any(above in others for above in one.parents)
    ]


def _is_file(descriptor: int, entry: TreeEntry) -> bool:
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode):
        return False
    if bool(found.st_mode & stat.S_IXUSR) != (entry.mode == MODE_PROGRAM):
        return False
    running = new_blob_hash(found.st_size)
    while chunk := os.read(descriptor, _CHUNK_BYTES):
        running.update(chunk)
    return running.hexdigest() == entry.oid


def _is_link(directory: int, name: bytes) -> bool:
    return stat.S_ISLNK(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode)
