"""Makes start snapshots: an untouched checkout, computed from the base without writing files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from policies import EntryKind
from sandbox.git.base import BaseTree
from sandbox.git.manifest import (
    SUBDIRECTORY,
    WORKSPACE,
    Directory,
    DirectoryDelta,
    Entry,
    TreeState,
)
from sandbox.git.objects import ObjectReader
from sandbox.git.recording import (
    START_MESSAGE,
    CommitPlan,
    RecordedTrees,
    finish_record,
    open_start_commit,
    write_manifests,
)
from sandbox.git.stream import FastImport
from sandbox.git.trees import MODE_GITLINK, MODE_PROGRAM, MODE_SYMLINK, TreeEntry

_DIRECTORY_MODE: Final = 0o755
_TMP_MODE: Final = 0o1777
_MODES: Final = {MODE_PROGRAM: 0o755}
_FILE_MODE: Final = 0o644


def start_ref(base_commit: str) -> str:
    """Return the ref that keeps the start snapshot of a base; all tasks on it share one."""
    return f"refs/forkyard-start/{base_commit}"


def make_start_state(base: BaseTree, reader: ObjectReader) -> TreeState:
    """Return the state of an untouched checkout, with empty HOME and /tmp."""
    mtime_ns = base.committed_at_seconds * 1_000_000_000
    contents: dict[bytes, dict[bytes, Entry]] = {WORKSPACE: {}, b"home": {}, b"tmp": {}}
    for path, entry in _make_entries(base.paths, reader, mtime_ns):
        place = WORKSPACE + b"/" + path
        if entry.kind is EntryKind.DIRECTORY:  # a submodule's place: an empty directory
            contents.setdefault(place, {})
        _put(contents, place, entry)
    return TreeState(
        {
            path: Directory(_TMP_MODE if path == b"tmp" else _DIRECTORY_MODE, mtime_ns, entries)
            for path, entries in contents.items()
        }
    )


def record_start(stream: FastImport, base: BaseTree, state: TreeState) -> RecordedTrees:
    """Write the commit of a start snapshot.

    Raises:
        RepositoryError, DiskFullError: nothing was recorded.
    """
    plan = CommitPlan(
        ref=start_ref(base.commit),
        parent="",
        message=START_MESSAGE,
        at_seconds=base.committed_at_seconds,
    )
    open_start_commit(stream, plan, base)
    write_manifests(
        stream, [DirectoryDelta(path, None, state.directories[path]) for path in state.directories]
    )
    stream.write(b"\n")
    return finish_record(stream)


def _make_entries(
    paths: Mapping[bytes, TreeEntry], reader: ObjectReader, mtime_ns: int
) -> Iterable[tuple[bytes, Entry]]:
    files = [entry.oid for entry in paths.values() if entry.mode & 0o170000 == 0o100000]
    sizes = reader.sizes(dict.fromkeys(files))
    for path, tracked in paths.items():
        if tracked.mode == MODE_GITLINK:
            yield path, SUBDIRECTORY
        elif tracked.mode == MODE_SYMLINK:
            target = reader.get(tracked.oid).read()
            yield path, Entry(EntryKind.SYMLINK, 0, len(target), tracked.oid, target, mtime_ns)
        else:
            mode = _MODES.get(tracked.mode, _FILE_MODE)
            size = sizes[tracked.oid]
            yield path, Entry(EntryKind.FILE, mode, size, tracked.oid, b"", mtime_ns)


def _put(contents: dict[bytes, dict[bytes, Entry]], path: bytes, entry: Entry) -> None:
    """List an entry in its directory, and the directory in those above it."""
    above, _, name = path.rpartition(b"/")
    known = above in contents
    contents.setdefault(above, {})[name] = entry
    if not known:
        _put(contents, above, SUBDIRECTORY)
