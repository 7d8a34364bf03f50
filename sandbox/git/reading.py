"""Reads a snapshot back: from its commit to the state that its files had."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from policies import EntryKind
from sandbox.errors import RepositoryError, SnapshotError
from sandbox.git.base import BaseTree, parse_commit
from sandbox.git.manifest import (
    ROOTS,
    WORKSPACE,
    Directory,
    Entry,
    Identity,
    TreeState,
    decode_directory,
    directory_key,
    make_identity,
    make_origin,
)
from sandbox.git.names import is_git_path
from sandbox.git.objects import ObjectReader
from sandbox.git.recording import START_MESSAGE
from sandbox.git.trees import EMPTY_TREE, MODE_TREE, TreeEntry
from sandbox.snapshot import Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotParts:
    """Where the parts of a snapshot's commit are."""

    is_start: bool
    """Restoring it makes a fresh `.git` for the agent."""
    tree: str
    source_tree: str
    full_tree: str
    manifest_tree: str
    times_tree: str

    def identity(self, origin: str) -> Identity:
        """Return the ids that follow from the parts."""
        return make_identity(
            manifest_tree=self.manifest_tree, times_tree=self.times_tree, origin=origin
        )


def find_parts(reader: ObjectReader, commit: str) -> SnapshotParts | None:
    """Return the parts of a snapshot's commit, or None where there is no such commit."""
    found = reader.find(commit)
    if found is None:
        return None
    body = found.read()
    if found.kind != "commit":
        raise SnapshotError(f"{commit} is a {found.kind}, not a snapshot's commit")
    tree, _ = parse_commit(body)
    entries = reader.tree(tree)
    parts = [
        entries[name].oid if name in entries else EMPTY_TREE
        for name in (b"source", b"full", b"manifest", b"times")
    ]
    return SnapshotParts(
        is_start=body.partition(b"\n\n")[2].strip() == START_MESSAGE,
        tree=tree,
        source_tree=parts[0],
        full_tree=parts[1],
        manifest_tree=parts[2],
        times_tree=parts[3],
    )


def get_parts(reader: ObjectReader, snapshot: Snapshot) -> SnapshotParts:
    """Return the parts of a snapshot and prove that they give its id.

    Raises:
        SnapshotError: the commit is missing or is not that snapshot.
    """
    parts = find_parts(reader, snapshot.commit)
    if parts is None:
        raise SnapshotError(f"commit {snapshot.commit} of {snapshot.snapshot_id} is missing")
    origin = make_origin(snapshot.repository_id, snapshot.base_commit)
    if parts.identity(origin).snapshot_id != snapshot.snapshot_id:
        raise SnapshotError(f"commit {snapshot.commit} is not {snapshot.snapshot_id}")
    return parts


def load_state(reader: ObjectReader, parts: SnapshotParts, base: BaseTree) -> TreeState:
    """Read the whole state of a snapshot's files.

    Raises:
        SnapshotError, RepositoryError: a part is missing or damaged.
    """
    directories = dict(_read_directories(reader, parts))
    for path, directory in directories.items():
        _check_place(path, directory, directories)
    state = TreeState(directories)
    source = reader.walk_tree(parts.source_tree)
    ignored = frozenset(
        path for path in _git_files(state) if path not in source and not base.tracks(path)
    )
    return replace(state, ignored=ignored)


class TreeLookup:
    """Finds single paths in trees, reading each tree once."""

    def __init__(self, reader: ObjectReader) -> None:
        self._reader = reader
        self._trees: dict[str, dict[bytes, TreeEntry]] = {}

    def find(self, tree: str, path: bytes) -> TreeEntry | None:
        """Return the entry of a path below a tree, or None."""
        *parents, name = path.split(b"/")
        for parent in parents:
            entry = self.entries(tree).get(parent)
            if entry is None or entry.mode != MODE_TREE:
                return None
            tree = entry.oid
        return self.entries(tree).get(name)

    def entries(self, tree: str) -> dict[bytes, TreeEntry]:
        """Return the entries of a tree."""
        if tree not in self._trees:
            self._trees[tree] = {} if tree == EMPTY_TREE else self._reader.tree(tree)
        return self._trees[tree]


@dataclass(frozen=True, slots=True)
class ManifestReader:
    """Reads single directories of a snapshot."""

    reader: ObjectReader
    lookup: TreeLookup = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "lookup", TreeLookup(self.reader))

    def find(self, parts: SnapshotParts, key: bytes) -> tuple[bytes, Directory] | None:
        """Return path and content of the directory with that key, or None."""
        place = key[:2] + b"/" + key
        manifest = self.lookup.find(parts.manifest_tree, place)
        times = self.lookup.find(parts.times_tree, place)
        if manifest is None or times is None:
            return None
        return decode_directory(
            self.reader.get(manifest.oid).read(), self.reader.get(times.oid).read()
        )


def changed_keys(lookup: TreeLookup, before: str, after: str) -> set[bytes]:
    """Return the keys whose blobs differ between two fanned-out trees."""
    changed: set[bytes] = set()
    for fan in _differing(lookup, before, after):
        inside = [lookup.find(tree, fan) for tree in (before, after)]
        old, new = (entry.oid if entry is not None else EMPTY_TREE for entry in inside)
        changed |= _differing(lookup, old, new)
    return changed


def _differing(lookup: TreeLookup, before: str, after: str) -> set[bytes]:
    old, new = lookup.entries(before), lookup.entries(after)
    return {name for name in old.keys() | new.keys() if old.get(name) != new.get(name)}


def _read_directories(
    reader: ObjectReader, parts: SnapshotParts
) -> Iterator[tuple[bytes, Directory]]:
    manifests = _blobs_by_key(reader, parts.manifest_tree)
    times = _blobs_by_key(reader, parts.times_tree)
    if manifests.keys() != times.keys():
        raise SnapshotError("manifests and times of the snapshot do not belong together")
    wanted = [oid for key in manifests for oid in (manifests[key], times[key])]
    blobs = reader.each(wanted)
    for key in manifests:
        manifest = next(blobs).read()
        path, directory = decode_directory(manifest, next(blobs).read())
        if directory_key(path).encode() != key:
            raise SnapshotError(f"the manifest of {path!r} is in the wrong place")
        yield path, directory


def _blobs_by_key(reader: ObjectReader, tree: str) -> dict[bytes, str]:
    if tree == EMPTY_TREE:
        return {}
    return {path[3:]: entry.oid for path, entry in reader.walk_tree(tree).items()}


def _check_place(path: bytes, directory: Directory, directories: dict[bytes, Directory]) -> None:
    parent, slash, name = path.rpartition(b"/")
    if slash:
        above = directories.get(parent)
        listed = above.entries.get(name) if above is not None else None
        if listed is None or listed.kind is not EntryKind.DIRECTORY:
            raise SnapshotError(f"directory {path!r} is not listed in the one above it")
    elif path not in ROOTS:
        raise SnapshotError(f"directory {path!r} is in no root")
    for below, entry in directory.entries.items():
        if entry.kind is EntryKind.DIRECTORY and path + b"/" + below not in directories:
            raise SnapshotError(f"the content of {path + b'/' + below!r} is missing")


def _git_files(state: TreeState) -> Iterator[bytes]:
    for path, directory in state.directories.items():
        if path != WORKSPACE and not path.startswith(WORKSPACE + b"/"):
            continue
        prefix = path[len(WORKSPACE) + 1 :]
        if prefix and not is_git_path(prefix):
            continue
        for name, entry in directory.entries.items():
            if _is_git_file(name, entry):
                yield prefix + b"/" + name if prefix else name


def _is_git_file(name: bytes, entry: Entry) -> bool:
    return entry.kind is not EntryKind.DIRECTORY and is_git_path(
        name, symlink=entry.kind is EntryKind.SYMLINK
    )


def read_source_blob(reader: ObjectReader, tree: str, path: bytes) -> bytes | None:
    """Return the bytes of a regular file below a tree, or None if there is none."""
    entry = TreeLookup(reader).find(tree, path)
    if entry is None or entry.mode & 0o170000 != 0o100000:
        return None
    found = reader.find(entry.oid)
    if found is None:
        raise RepositoryError(f"object {entry.oid} of {path!r} is missing")
    return found.read()
