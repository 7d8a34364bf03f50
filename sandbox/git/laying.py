"""Lays another snapshot's `source_tree` over a state of the files."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from policies import EntryKind, parse_glob
from sandbox.git.manifest import SUBDIRECTORY, WORKSPACE, Directory, Entry, TreeState
from sandbox.git.trees import MODE_GITLINK, MODE_PROGRAM, MODE_SYMLINK, TreeEntry

_NEW_DIRECTORY_MODE: Final = 0o755


@dataclass(frozen=True, slots=True)
class LaidFile:
    """One path that the other tree has differently; `entry` is None where it has none."""

    path: bytes
    entry: Entry | None


def list_laid_paths(
    ours: Mapping[bytes, TreeEntry], theirs: Mapping[bytes, TreeEntry], restore: Iterable[str]
) -> list[bytes]:
    """Return the paths that differ between two source trees, without those to be restored.

    Raises:
        GlobError: a glob cannot be parsed.
    """
    globs = [parse_glob(pattern) for pattern in restore]
    return [
        path
        for path in sorted(ours.keys() | theirs.keys())
        if ours.get(path) != theirs.get(path) and not any(one.covers(path) for one in globs)
    ]


def make_laid_entry(tracked: TreeEntry, content: tuple[int, bytes]) -> Entry | None:
    """Return what a line of a source tree is as a file, or None for a submodule.

    Args:
        tracked: the line.
        content: the blob's size, and the target where it is a link.
    """
    size, target = content
    now_ns = time.time_ns()  # never an old time: caches go by it
    if tracked.mode == MODE_GITLINK:
        return None
    if tracked.mode == MODE_SYMLINK:
        return Entry(EntryKind.SYMLINK, 0, size, tracked.oid, target, now_ns)
    mode = 0o755 if tracked.mode == MODE_PROGRAM else 0o644
    return Entry(EntryKind.FILE, mode, size, tracked.oid, b"", now_ns)


def lay_over(state: TreeState, files: Iterable[LaidFile]) -> TreeState:
    """Return the state with the files laid over it.

    Where a restored path is in the way (a directory where a file should be, or the reverse),
    what the state has stays.
    """
    layer = _Layer(state)
    ordered = sorted(files, key=lambda file: file.path)
    for file in ordered:
        if file.entry is None:
            layer.remove(WORKSPACE + b"/" + file.path)
    for file in ordered:
        if file.entry is not None:
            layer.put(WORKSPACE + b"/" + file.path, file.entry)
    return replace(state, directories=layer.directories())


class _Layer:
    """A state being edited."""

    def __init__(self, state: TreeState) -> None:
        self._before = state.directories
        self._contents: dict[bytes, dict[bytes, Entry]] = {}
        self._gone: set[bytes] = set()

    def directories(self) -> dict[bytes, Directory]:
        result = {p: d for p, d in self._before.items() if p not in self._gone}
        for path, entries in self._contents.items():
            before = self._before.get(path, Directory(_NEW_DIRECTORY_MODE, time.time_ns()))
            result[path] = replace(before, entries=entries)
        return result

    def remove(self, path: bytes) -> None:
        """Remove a file or link, and the directories that it leaves empty."""
        above, _, name = path.rpartition(b"/")
        entries = self._open(above)
        if entries is None or name not in entries or entries[name].kind is EntryKind.DIRECTORY:
            return
        del entries[name]
        while not entries and above != WORKSPACE:
            self._drop(above)
            above, _, name = above.rpartition(b"/")
            entries = self._open(above)
            if entries is None:
                return
            entries.pop(name, None)

    def put(self, path: bytes, entry: Entry) -> None:
        """Write a file or link, unless something that stays is in its place."""
        above, _, name = path.rpartition(b"/")
        entries = self._make(above)
        if entries is None:
            return
        present = entries.get(name)
        if present is not None and present.kind is EntryKind.DIRECTORY:
            if self._open(path):
                return
            self._drop(path)
        entries[name] = entry

    def _open(self, path: bytes) -> dict[bytes, Entry] | None:
        if path not in self._contents:
            before = self._before.get(path)
            if before is None or path in self._gone:
                return None
            self._contents[path] = dict(before.entries)
        return self._contents[path]

    def _make(self, path: bytes) -> dict[bytes, Entry] | None:
        """Return the content of a directory, making it; None where a file is in the way."""
        found = self._open(path)
        if found is not None or b"/" not in path:
            return found
        above, _, name = path.rpartition(b"/")
        parent = self._make(above)
        if parent is None or name in parent:
            return None
        parent[name] = SUBDIRECTORY
        self._gone.discard(path)
        self._contents[path] = {}
        return self._contents[path]

    def _drop(self, path: bytes) -> None:
        self._contents.pop(path, None)
        self._gone.add(path)
