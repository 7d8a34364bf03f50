"""A snapshot: an immutable, content-addressed state of a task's files."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import NewType

from policies import Changes, Json

SnapshotId = NewType("SnapshotId", str)
"""`sha256:…` over names, bytes, modes, links, times of workspace, HOME, /tmp, and the layer."""

CommitId = NewType("CommitId", str)
"""40 lower-case hexadecimal digits."""

RepositoryId = NewType("RepositoryId", str)
"""sha256 hexadecimal of the source's canonical name: the folder below `repos/`."""


class History(StrEnum):
    """How much of the past a container may see."""

    #: everything that the base commit reaches
    FULL = "full"
    #: the base commit alone
    SHALLOW = "shallow"


WITHOUT_CONTENT = frozenset({"a named pipe", "a socket", "a character device", "a block device"})
"""Reasons of what nothing is lost with: it means nothing without its process or driver."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """One path that is not in a snapshot, with the reason."""

    path: str
    """`workspace/…`, `home/…` or `tmp/…`, odd bytes escaped."""
    reason: str

    @property
    def has_content(self) -> bool:
        """Tell whether something is lost with it."""
        return self.reason not in WITHOUT_CONTENT


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """What a snapshot holds and what it does not."""

    covered: tuple[str, ...] = ("workspace", "home", "tmp")
    not_covered: tuple[str, ...] = (
        "processes",
        "memory",
        "sockets",
        "/dev/shm",  # noqa: S108  a name to show, not a place to write
        "/run",
        "volumes of the image",
        "services outside",
    )
    left_out: tuple[LeftOut, ...] = ()

    def to_json(self) -> Json:
        """Return the form that is stored and shown."""
        return {
            "covered": list(self.covered),
            "not_covered": list(self.not_covered),
            "left_out": [{"path": one.path, "reason": one.reason} for one in self.left_out],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Where a snapshot's parts are; all objects live in `snapshots.git` of its repository."""

    snapshot_id: SnapshotId
    content_id: str
    """`sha256:…`, equal for equal names, bytes, modes and links."""
    repository_id: RepositoryId
    base_commit: CommitId
    """The commit that the task started from."""
    history: History = History.FULL
    """Which of the commit's two base repositories a container mounts."""
    commit: CommitId
    """The commit in `snapshots.git` that holds this snapshot; its parent is the former one."""
    source_tree: str
    """Tree id: tracked in the base, or new and not ignored by the base's rules."""
    full_tree: str
    """Tree id: every file and link that git can hold, below `workspace/`, `home/`, `tmp/`."""
    coverage: Coverage = field(default_factory=Coverage)


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotTaken:
    """A snapshot and how it differs from the one before it."""

    snapshot: Snapshot
    changes: Changes
