"""Turns the difference between two states into the commands that record a snapshot.

A snapshot is a commit with `source/`, `full/`, `extra/`, `manifest/` and `times/`. Only what
changed is written; everything else comes from the commit that the live files were in before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from policies import EntryKind
from sandbox.git.base import BaseTree
from sandbox.git.manifest import (
    WORKSPACE,
    DirectoryDelta,
    Entry,
    TreeState,
    directory_key,
    encode_manifest,
    encode_times,
)
from sandbox.git.names import is_git_path
from sandbox.git.stream import FastImport, quote_path
from sandbox.git.trees import EMPTY_TREE, MODE_FILE, MODE_PROGRAM, MODE_SYMLINK

START_MESSAGE: Final = b"start"
SNAPSHOT_MESSAGE: Final = b"snapshot"
_PREFIX: Final = WORKSPACE + b"/"
_OWNER_EXECUTES: Final = 0o100


@dataclass(frozen=True, slots=True)
class RecordedTrees:
    """Ids of what was just recorded."""

    commit: str
    tree: str
    source_tree: str
    full_tree: str
    manifest_tree: str
    times_tree: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitPlan:
    """Where a snapshot's commit goes and what it starts from."""

    ref: str
    parent: str
    """The former snapshot's commit; empty for none."""
    reset_to_tree: str = ""
    """Tree to start from where it is not the parent's."""
    message: bytes = SNAPSHOT_MESSAGE
    at_seconds: int


class PathChange(NamedTuple):
    """One file or link that differs between two states."""

    path: bytes
    before: Entry | None
    after: Entry | None


class SourceRule:
    """Decides what belongs to `source_tree`."""

    def __init__(self, base: BaseTree, ignored: frozenset[bytes]) -> None:
        self._base = base
        self._ignored = ignored

    def holds(self, path: bytes, entry: Entry) -> bool:
        """Tell whether a workspace path is in `source_tree`."""
        return (
            path not in self._ignored
            and entry.kind is not EntryKind.DIRECTORY
            and is_git_path(path, symlink=entry.kind is EntryKind.SYMLINK)
            and not self._base.is_git_link_or_below(path)
        )

    def list_freed_links(
        self, changes: Iterable[PathChange]
    ) -> Iterator[tuple[bytes, tuple[int, str]]]:
        """Yield submodules that a file has hidden so far: path, mode and commit."""
        ours = [change for change in changes if change.path.startswith(_PREFIX)]
        gone = {one.path.removeprefix(_PREFIX) for one in ours if one.before is not None}
        present = {one.path.removeprefix(_PREFIX) for one in ours if one.after is not None}
        for link in self._base.links_freed(gone=gone, present=present):
            yield link, self._base.paths[link]


def unjudged_paths(deltas: Iterable[DirectoryDelta], base: BaseTree) -> list[bytes]:
    """Return the new workspace paths that only the ignore rules can place."""
    return [
        change.path.removeprefix(_PREFIX)
        for change in list_path_changes(deltas)
        if change.path.startswith(_PREFIX)
        and change.before is None
        and change.after is not None
        and is_git_path(change.path)
        and not base.tracks(change.path.removeprefix(_PREFIX))
    ]


def list_path_changes(deltas: Iterable[DirectoryDelta]) -> Iterator[PathChange]:
    """Yield the files and links that differ in kind, bytes or mode, by their full paths."""
    for delta in deltas:
        before = delta.before.entries if delta.before is not None else {}
        after = delta.after.entries if delta.after is not None else {}
        for name in before.keys() | after.keys():
            old, new = _file_like(before.get(name)), _file_like(after.get(name))
            if old is new or (old and new and new.same_content(old) and old.mode == new.mode):
                continue
            yield PathChange(delta.path + b"/" + name, old, new)


def record(
    stream: FastImport,
    plan: CommitPlan,
    *,
    deltas: Sequence[DirectoryDelta],
    rule: SourceRule,
    extras: ExtraBlobs,
) -> RecordedTrees:
    """Write one snapshot's commit and finish the stream.

    Raises:
        RepositoryError, DiskFullError: nothing was recorded.
    """
    _open_commit(stream, plan)
    removals, writes = _plan_paths(deltas, rule, extras)
    for path in sorted(removals - writes.keys()):
        stream.write(b"D %s\n" % quote_path(path))
    for path, (mode, oid) in sorted(writes.items()):
        stream.write(b"M %o %s %s\n" % (mode, oid.encode(), quote_path(path)))
    write_manifests(stream, deltas)
    stream.write(b"\n")
    return finish_record(stream)


def finish_record(stream: FastImport) -> RecordedTrees:
    """Ask for the ids of the commit marked 1 and finish the stream."""
    commit = stream.ask(b"get-mark :1\n").decode("ascii")
    trees = [
        _ask_tree(stream, name) for name in (b'""', b"source", b"full", b"manifest", b"times")
    ]
    stream.finish()
    return RecordedTrees(commit, *trees)


def _open_commit(stream: FastImport, plan: CommitPlan) -> None:
    stream.write(b"commit %s\nmark :1\n" % plan.ref.encode())
    stream.write(b"committer Forkyard <forkyard@localhost> %d +0000\n" % plan.at_seconds)
    stream.write(b"data %d\n%s\n" % (len(plan.message), plan.message))
    if plan.parent:
        stream.write(b"from %s\n" % plan.parent.encode())
    if plan.reset_to_tree:
        stream.write(b'M 040000 %s ""\n' % plan.reset_to_tree.encode())


def open_start_commit(stream: FastImport, plan: CommitPlan, base: BaseTree) -> None:
    """Begin the commit of a start snapshot: the base's tree, as source and in full."""
    _open_commit(stream, plan)
    if base.tree == EMPTY_TREE:
        return
    stream.write(b"M 040000 %s source\n" % base.tree.encode())
    stream.write(b"M 040000 %s full/workspace\n" % base.tree.encode())
    for link in sorted(base.gitlinks):
        stream.write(b"D %s\n" % quote_path(b"full/workspace/" + link))


def _plan_paths(
    deltas: Sequence[DirectoryDelta], rule: SourceRule, extras: ExtraBlobs
) -> tuple[set[bytes], dict[bytes, tuple[int, str]]]:
    removals: set[bytes] = set()
    writes: dict[bytes, tuple[int, str]] = {}
    changes = list(list_path_changes(deltas))
    for change in changes:
        if change.before is not None:
            extras.forget(change.path, change.before)
            removals.update(_git_paths(change.path, change.before, rule))
        if change.after is not None:
            extras.add(change.path, change.after)
            line = (_git_mode(change.after), change.after.oid)
            writes.update(dict.fromkeys(_git_paths(change.path, change.after, rule), line))
    writes.update((b"source/" + link, line) for link, line in rule.list_freed_links(changes))
    removals.update(extras.removed_paths())
    writes.update(extras.added_paths())
    return removals, writes


def _git_paths(path: bytes, entry: Entry, rule: SourceRule) -> Iterator[bytes]:
    if not is_git_path(path, symlink=entry.kind is EntryKind.SYMLINK):
        return
    yield b"full/" + path
    if path.startswith(_PREFIX) and rule.holds(path.removeprefix(_PREFIX), entry):
        yield b"source/" + path.removeprefix(_PREFIX)


def write_manifests(stream: FastImport, deltas: Iterable[DirectoryDelta]) -> None:
    """Write, or remove, the manifest and times blobs of directories."""
    for delta in deltas:
        key = directory_key(delta.path).encode()
        place = b"%s/%s" % (key[:2], key)
        if delta.after is None:
            stream.write(b"D manifest/%s\nD times/%s\n" % (place, place))
            continue
        _write_inline(stream, b"manifest/" + place, encode_manifest(delta.path, delta.after))
        _write_inline(stream, b"times/" + place, encode_times(delta.after))


def _write_inline(stream: FastImport, path: bytes, data: bytes) -> None:
    stream.write(b"M 100644 inline %s\ndata %d\n%s\n" % (path, len(data), data))


def _ask_tree(stream: FastImport, name: bytes) -> str:
    answer = stream.ask(b"ls :1 %s\n" % name)
    if answer.startswith(b"missing"):
        return EMPTY_TREE
    return answer.split(b"\t")[0].split(b" ")[2].decode("ascii")


def _git_mode(entry: Entry) -> int:
    if entry.kind is EntryKind.SYMLINK:
        return MODE_SYMLINK
    return MODE_PROGRAM if entry.mode & _OWNER_EXECUTES else MODE_FILE


def _file_like(entry: Entry | None) -> Entry | None:
    return None if entry is None or entry.kind is EntryKind.DIRECTORY else entry


class ExtraBlobs:
    """Counts who needs the bytes that only `extra/` holds: files that git cannot name."""

    def __init__(self, users: Mapping[str, int]) -> None:
        self._users = dict(users)
        self._before = frozenset(oid for oid, count in users.items() if count)

    @classmethod
    def of(cls, state: TreeState) -> ExtraBlobs:
        """Count the users in a whole state."""
        extras = cls({})
        for path, directory in state.directories.items():
            for name, entry in directory.entries.items():
                if entry.kind is not EntryKind.DIRECTORY:
                    extras.add(path + b"/" + name, entry)
        return cls(extras._users)

    def copy(self) -> ExtraBlobs:
        """Return a copy that calls the present users the former ones."""
        return ExtraBlobs({oid: count for oid, count in self._users.items() if count})

    def add(self, path: bytes, entry: Entry) -> None:
        """Count one more user, where the path needs `extra/` at all."""
        if not is_git_path(path, symlink=entry.kind is EntryKind.SYMLINK):
            self._users[entry.oid] = self._users.get(entry.oid, 0) + 1

    def forget(self, path: bytes, entry: Entry) -> None:
        """Count one user less."""
        if not is_git_path(path, symlink=entry.kind is EntryKind.SYMLINK):
            self._users[entry.oid] -= 1

    def removed_paths(self) -> Iterator[bytes]:
        """Yield the paths below `extra/` that nobody needs any more."""
        return (_extra_path(oid) for oid in self._before if not self._users[oid])

    def added_paths(self) -> Iterator[tuple[bytes, tuple[int, str]]]:
        """Yield the paths below `extra/` that are new, with mode and blob."""
        return (
            (_extra_path(oid), (MODE_FILE, oid))
            for oid, users in self._users.items()
            if users and oid not in self._before
        )


def _extra_path(oid: str) -> bytes:
    return b"extra/%s/%s" % (oid[:2].encode(), oid.encode())
