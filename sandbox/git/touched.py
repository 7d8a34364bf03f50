"""Which paths a task's `source_tree` has differently from its base commit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sandbox.git.names import is_git_path
from sandbox.git.process import Git
from sandbox.git.trees import MODE_FILE, MODE_PROGRAM, MODE_SYMLINK, TreeEntry
from sandbox.snapshot import Snapshot

_MODES: Final = (MODE_FILE, MODE_PROGRAM, MODE_SYMLINK)


@dataclass(frozen=True, slots=True)
class TouchedPath:
    """One file or link that a task has added, changed or deleted."""

    path: bytes
    old: TreeEntry | None
    """What the base has; None where it has nothing."""
    new: TreeEntry | None
    """What the task leaves; None where it deleted it."""

    @property
    def parents(self) -> Iterator[bytes]:
        """Every directory that it lies in, nearest to the root first."""
        return parents_of(self.path)

    @property
    def name(self) -> bytes:
        """Its last component."""
        return self.path.rpartition(b"/")[2]

    @property
    def problem(self) -> str:
        """Why it must never leave for a user's repository; empty where it may.

        No snapshot's `source_tree` holds such a path; this does not rely on it.
        """
        entries = [entry for entry in (self.old, self.new) if entry is not None]
        if any(entry.mode not in _MODES for entry in entries):
            return "it is a submodule, which is never exported"
        if all(is_git_path(self.path, symlink=one.mode == MODE_SYMLINK) for one in entries):
            return ""
        return "git refuses its name"


def parents_of(path: bytes) -> Iterator[bytes]:
    """Yield every directory that a path lies in, nearest to the root first."""
    at = path.find(b"/")
    while at != -1:
        yield path[:at]
        at = path.find(b"/", at + 1)


def list_touched(git: Git, snapshots: Path, snapshot: Snapshot) -> list[TouchedPath]:
    """Return all paths that differ, in git's order.

    Raises:
        RepositoryError: a tree is missing.
    """
    base = f"{snapshot.base_commit}^{{tree}}"
    options = ["-r", "-z", "--raw", "--no-abbrev", "--no-renames"]
    fields = git.run(snapshots, ["diff-tree", *options, base, snapshot.source_tree, "--"])
    parts = fields.split(b"\0")[:-1]
    return [_parse(meta, path) for meta, path in zip(parts[::2], parts[1::2], strict=True)]


def _parse(meta: bytes, path: bytes) -> TouchedPath:
    # `:old-mode new-mode old-id new-id status`; a mode of 0 stands for nothing
    old_mode, new_mode, old_id, new_id, _ = meta.removeprefix(b":").decode("ascii").split(" ")
    return TouchedPath(path, _entry(old_mode, old_id), _entry(new_mode, new_id))


def _entry(mode: str, oid: str) -> TreeEntry | None:
    number = int(mode, 8)
    return TreeEntry(number, oid) if number else None
