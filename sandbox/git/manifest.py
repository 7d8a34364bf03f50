"""The state of a task's files in memory, and its canonical form in a snapshot.

A snapshot's commit holds one manifest blob and one times blob per directory, named by the hash
of the directory's path, so that an unchanged directory costs nothing.
Manifest: names, kinds, modes, sizes, blob ids, link targets. Times: modification times in
nanoseconds, first the directory's own. Bytes that are not UTF-8 are in base64 under `…64` keys.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from policies import EntryKind, digest_json
from sandbox.errors import SnapshotError
from sandbox.git.trees import EMPTY_TREE, MODE_FILE, MODE_TREE, TreeEntry, blob_id, tree_id
from sandbox.snapshot import RepositoryId

WORKSPACE: Final = b"workspace"
ROOTS: Final = (b"home", b"tmp", WORKSPACE)

Signature: TypeAlias = tuple[int, ...]
"""inode, size, mtime, ctime, mode and link count of a file when its bytes were last read."""

_KINDS: Final = {kind.value: kind for kind in EntryKind}
_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class Entry:
    """One name in a directory."""

    kind: EntryKind
    mode: int = 0
    """Permission bits; 0 for a link, and for a directory, which keeps its own."""
    size: int = 0
    oid: str = ""
    """Blob id of the bytes, or of the link's target; empty for a directory."""
    target: bytes = b""
    mtime_ns: int = 0
    """0 for a directory, which keeps its own."""
    signature: Signature = field(default=(), compare=False)

    def same_content(self, other: Entry | None) -> bool:
        """Tell whether kind and bytes are equal, whatever modes and times are."""
        return other is not None and self.kind is other.kind and self.oid == other.oid


SUBDIRECTORY: Final = Entry(EntryKind.DIRECTORY)


@dataclass(frozen=True, slots=True)
class Directory:
    """One directory: its own attributes and what it lists."""

    mode: int
    mtime_ns: int
    entries: Mapping[bytes, Entry] = field(default_factory=dict)
    left_out: Mapping[bytes, str] = field(default_factory=dict)
    """Names that no snapshot holds, with the reason."""


@dataclass(frozen=True, slots=True)
class TreeState:
    """All directories of a task's volume, by path (`workspace/…`, `home/…`, `tmp/…`)."""

    directories: Mapping[bytes, Directory] = field(default_factory=dict)
    ignored: frozenset[bytes] = frozenset()
    """Workspace paths that `source_tree` leaves out by the base's rules."""
    settled_before_ns: int = 0
    """Signatures with an earlier ctime prove that the bytes did not change since."""


@dataclass(frozen=True, slots=True)
class DirectoryDelta:
    """One directory that differs between two states; None where it does not exist."""

    path: bytes
    before: Directory | None
    after: Directory | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The ids of a state of the files."""

    content_id: str
    snapshot_id: str
    manifest_tree: str
    times_tree: str


def make_identity(*, manifest_tree: str, times_tree: str, origin: str) -> Identity:
    """Derive the ids from the trees of manifests and times, and from where the files came."""
    content_id = digest_json({"manifest": manifest_tree})
    snapshot_id = digest_json(
        {"layer": "", "manifest": manifest_tree, "origin": origin, "times": times_tree}
    )
    return Identity(
        content_id=content_id,
        snapshot_id=snapshot_id,
        manifest_tree=manifest_tree,
        times_tree=times_tree,
    )


def make_origin(repository_id: RepositoryId, base_commit: str) -> str:
    """Return what tells equal files of two sources apart: each has a store of its own."""
    return f"{repository_id}:{base_commit}"


def identify(state: TreeState, origin: str) -> Identity:
    """Compute the ids of a state without any repository."""
    manifests: dict[str, str] = {}
    times: dict[str, str] = {}
    for path, directory in state.directories.items():
        key = directory_key(path)
        manifests[key] = blob_id(encode_manifest(path, directory))
        times[key] = blob_id(encode_times(directory))
    return make_identity(
        manifest_tree=_fanned_tree(manifests),
        times_tree=_fanned_tree(times),
        origin=origin,
    )


def directory_key(path: bytes) -> str:
    """Return the name of a directory's blobs."""
    return hashlib.sha256(path).hexdigest()


def encode_manifest(path: bytes, directory: Directory) -> bytes:
    """Return the manifest blob of a directory."""
    entries = [_entry_json(name, entry) for name, entry in sorted(directory.entries.items())]
    document = {"entries": entries, "mode": directory.mode, **_text("path", path)}
    return _ENCODER.encode(document).encode()


def encode_times(directory: Directory) -> bytes:
    """Return the times blob of a directory."""
    times = [directory.mtime_ns]
    times += [
        entry.mtime_ns
        for _, entry in sorted(directory.entries.items())
        if entry.kind is not EntryKind.DIRECTORY
    ]
    return _ENCODER.encode(times).encode()


def decode_directory(manifest: bytes, times: bytes) -> tuple[bytes, Directory]:
    """Return path and directory from its two blobs.

    Raises:
        SnapshotError: they are not what `encode_manifest` and `encode_times` make.
    """
    try:
        document = json.loads(manifest)
        own_time, *entry_times = json.loads(times)
        clock = iter(entry_times)
        entries = {}
        for row in document["entries"]:
            entries[_checked_name(_bytes(row, "name"))] = _parse_entry(row, clock)
        return _bytes(document, "path"), Directory(document["mode"], own_time, entries)
    except (ValueError, KeyError, TypeError, StopIteration) as error:
        raise SnapshotError(f"a manifest of the snapshot is damaged: {error!r}") from error


def path_order(path: bytes) -> list[bytes]:
    """Sort key that lists a directory right before everything below it."""
    return path.split(b"/")


def _entry_json(name: bytes, entry: Entry) -> dict[str, object]:
    row: dict[str, object] = {"kind": entry.kind.value, **_text("name", name)}
    if entry.kind is EntryKind.FILE:
        row |= {"mode": entry.mode, "size": entry.size, "oid": entry.oid}
    elif entry.kind is EntryKind.SYMLINK:
        row |= _text("target", entry.target)
    return row


def _parse_entry(row: Mapping[str, object], clock: Iterator[int]) -> Entry:
    kind = _KINDS[str(row["kind"])]
    if kind is EntryKind.DIRECTORY:
        return SUBDIRECTORY
    mtime_ns = next(clock)
    if kind is EntryKind.SYMLINK:
        target = _bytes(row, "target")
        return Entry(kind, 0, len(target), blob_id(target), target, mtime_ns)
    mode, size = row["mode"], row["size"]
    if not isinstance(mode, int) or not isinstance(size, int):
        raise TypeError(row)
    return Entry(kind, mode, size, str(row["oid"]), b"", mtime_ns)


def _checked_name(name: bytes) -> bytes:
    if b"/" in name or b"\0" in name or name in (b"", b".", b".."):
        raise ValueError(name)
    return name


def _text(key: str, value: bytes) -> dict[str, object]:
    try:
        return {key: value.decode("utf-8")}
    except UnicodeDecodeError:
        return {f"{key}64": base64.b64encode(value).decode("ascii")}


def _bytes(row: Mapping[str, object], key: str) -> bytes:
    if key in row:
        return str(row[key]).encode("utf-8")
    return base64.b64decode(str(row[f"{key}64"]), validate=True)


def _fanned_tree(blobs: Mapping[str, str]) -> str:
    if not blobs:
        return EMPTY_TREE
    fans: dict[bytes, dict[bytes, TreeEntry]] = {}
    for key, oid in blobs.items():
        fan = fans.setdefault(key[:2].encode(), {})
        fan[key.encode()] = TreeEntry(MODE_FILE, oid)
    return tree_id({name: TreeEntry(MODE_TREE, tree_id(fan)) for name, fan in fans.items()})
