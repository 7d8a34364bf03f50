"""What changed in the workspace between two states, as people and change rules see it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

from policies import Change, ChangeKind, Changes, EntryKind, show_path
from sandbox.git.manifest import WORKSPACE, Directory, DirectoryDelta, Entry
from sandbox.git.names import DOT_GIT
from sandbox.snapshot import Coverage

InSource: TypeAlias = Callable[[bytes, Entry], bool]
"""Tells whether a workspace path is in `source_tree`."""

_PREFIX = WORKSPACE + b"/"


def make_changes(
    deltas: Iterable[DirectoryDelta],
    in_source: InSource,
    *,
    left_out: tuple[Coverage, Coverage],
) -> Changes:
    """Return the changes of the workspace.

    A directory is told where its mode changes, or where it comes or goes without a file in it;
    otherwise its files tell it. Nothing below a `.git` is told: it is no part of the project.

    Args:
        deltas: the directories that differ.
        in_source: decides which changes are marked as ignored.
        left_out: coverage before and after, for what no snapshot holds.
    """
    found: list[Change] = []
    for delta in deltas:
        if delta.path == WORKSPACE:
            found += _entry_changes(b"", delta, in_source)
        elif delta.path.startswith(_PREFIX):
            path = delta.path.removeprefix(_PREFIX)
            if DOT_GIT not in path.split(b"/"):
                found += _directory_changes(path, delta)
                found += _entry_changes(path + b"/", delta, in_source)
    found += _left_out_changes(*left_out)
    return Changes.of(found)


def _directory_changes(path: bytes, delta: DirectoryDelta) -> Iterator[Change]:
    before, after = delta.before, delta.after
    if before is None and after is not None:
        if _is_bare(after):
            yield _directory_change(path, ChangeKind.ADDED, after.mode)
    elif after is None and before is not None:
        if _is_bare(before):
            yield _directory_change(path, ChangeKind.DELETED, 0)
    elif before is not None and after is not None and before.mode != after.mode:
        yield _directory_change(path, ChangeKind.MODE, after.mode)


def _is_bare(directory: Directory) -> bool:
    return not directory.entries.keys() - {DOT_GIT}


def _directory_change(path: bytes, kind: ChangeKind, mode: int) -> Change:
    return Change(path=path, kind=kind, entry=EntryKind.DIRECTORY, mode=mode)


def _entry_changes(prefix: bytes, delta: DirectoryDelta, in_source: InSource) -> Iterator[Change]:
    before = delta.before.entries if delta.before is not None else {}
    after = delta.after.entries if delta.after is not None else {}
    for name in before.keys() | after.keys():
        old, new = before.get(name), after.get(name)
        kind = _kind_of(old, new)
        if kind is None or name == DOT_GIT:
            continue
        shown = old if kind is ChangeKind.DELETED else new
        if shown is not None:
            path = prefix + name
            yield _entry_change(path, kind, shown, ignored=not in_source(path, shown))


def _kind_of(old: Entry | None, new: Entry | None) -> ChangeKind | None:
    """Return what happened to a file or link; None for nothing, or for a directory."""
    was_file = old is not None and old.kind is not EntryKind.DIRECTORY
    is_file = new is not None and new.kind is not EntryKind.DIRECTORY
    if not is_file:
        return ChangeKind.DELETED if was_file else None
    if old is None or new is None:
        return ChangeKind.ADDED
    if not new.same_content(old):
        return ChangeKind.MODIFIED
    return ChangeKind.MODE if old.mode != new.mode else None


def _entry_change(path: bytes, kind: ChangeKind, entry: Entry, *, ignored: bool) -> Change:
    if kind is ChangeKind.DELETED:
        return Change(path=path, kind=kind, entry=entry.kind, ignored=ignored)
    is_link = entry.kind is EntryKind.SYMLINK
    return Change(
        path=path,
        kind=kind,
        entry=entry.kind,
        size_bytes=entry.size,
        content=show_path(entry.target) if is_link else entry.oid,
        mode=entry.mode,
        ignored=ignored,
    )


def _left_out_changes(before: Coverage, after: Coverage) -> Iterator[Change]:
    """Tell pipes, sockets and oversized files that came or went; no snapshot compares them."""
    old, new = _left_out_paths(before), _left_out_paths(after)
    for path in new - old:
        yield Change(path=path, kind=ChangeKind.ADDED, entry=EntryKind.OTHER, ignored=True)
    for path in old - new:
        yield Change(path=path, kind=ChangeKind.DELETED, entry=EntryKind.OTHER, ignored=True)


def _left_out_paths(coverage: Coverage) -> set[bytes]:
    prefix = _PREFIX.decode()
    return {
        one.path.removeprefix(prefix).encode("utf-8")
        for one in coverage.left_out
        if one.path.startswith(prefix) and ".git" not in one.path.split("/")
    }
