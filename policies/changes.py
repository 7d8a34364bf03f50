"""What an execution did to the files: the difference between two snapshots."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from policies.canonical import Json, digest_json


class ChangeKind(StrEnum):
    """What happened to one path."""

    #: was not there before
    ADDED = "added"
    #: other bytes, another link target or another kind of entry
    MODIFIED = "modified"
    #: is not there any more
    DELETED = "deleted"
    #: same bytes, other permission bits
    MODE = "mode"


class EntryKind(StrEnum):
    """What a path is."""

    FILE = "file"
    DIRECTORY = "directory"
    SYMLINK = "symlink"
    #: FIFO, socket or device: listed, never stored
    OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One path that differs between two snapshots."""

    path: bytes
    """Relative to the workspace; names are bytes."""
    kind: ChangeKind
    entry: EntryKind
    """What it is now; for a deletion, what it was."""
    size_bytes: int = 0
    """Size now; 0 for a deletion."""
    content: str = ""
    """Object id of the bytes now, or the link's target; empty for a deletion or a directory."""
    mode: int = 0
    """Permission bits now."""
    ignored: bool = False
    """The base's ignore rules leave it out of the patch."""

    def to_json(self) -> Json:
        """Return the form that is hashed and stored; odd bytes of a name are escaped."""
        return {
            "path": show_path(self.path),
            "kind": self.kind.value,
            "entry": self.entry.value,
            "size_bytes": self.size_bytes,
            "content": self.content,
            "mode": self.mode,
            "ignored": self.ignored,
        }


@dataclass(frozen=True, slots=True)
class Changes:
    """All that changed in the workspace between two snapshots, ordered by path."""

    items: tuple[Change, ...] = ()

    @classmethod
    def of(cls, items: Iterable[Change]) -> Changes:
        """Return the changes ordered by path."""
        return cls(tuple(sorted(items, key=lambda change: change.path)))

    @property
    def digest(self) -> str:
        """`sha256:…` over all changes."""
        return digest_json([change.to_json() for change in self.items])

    def count(self, kind: ChangeKind) -> int:
        """Count the changes of one kind."""
        return sum(1 for change in self.items if change.kind is kind)


def show_path(path: bytes) -> str:
    r"""Return a name for JSON and for people; bytes that are not UTF-8 appear as `\xNN`.

    A backslash of the name is doubled: no two names are shown, or hashed, alike.
    """
    return path.replace(b"\\", rb"\\").decode("utf-8", "backslashreplace").replace("\0", "\\x00")
