"""What this package needs of the workspaces: files in a volume, recorded and put back.

`sandbox.git` does it; the protocols keep containers and files apart, so that either may change.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from policies import Changes
from sandbox.sandbox import LaidSource
from sandbox.snapshot import CommitId, History, RepositoryId, Snapshot, SnapshotTaken
from sandbox.source import ImportedSource, Source


class LiveWorkspace(Protocol):
    """The files of one sandbox."""

    def take_snapshot(self) -> SnapshotTaken:
        """Record the files as they are now; see Sandbox."""
        ...

    def take_start(self) -> SnapshotTaken:
        """Record the files as what tasks start from; see Sandbox."""
        ...

    def restore(self, snapshot: Snapshot) -> None:
        """Put the files back to a snapshot; see Sandbox."""
        ...


class Workspaces(Protocol):
    """Makes workspaces and reads their snapshots; see SandboxHost."""

    def start_snapshot(self, source: ImportedSource, *, task_id: str) -> Snapshot:
        """Return the snapshot of an untouched checkout."""
        ...

    def open_workspace(
        self,
        directory: Path,
        *,
        task_id: str,
        start: Snapshot,
        lay: LaidSource | None,
        register: bool,
        erase: bool,
    ) -> AbstractContextManager[LiveWorkspace]:
        """Make workspace, home and tmp in an empty directory from a snapshot.

        Args:
            erase: delete the files at the end; False where the volume ends with them.
        """
        ...

    def prune(self, directory: Path) -> int:
        """End the worktree entries of a directory that is gone; return how many."""
        ...

    def changes_between(self, before: Snapshot, after: Snapshot) -> Changes:
        """Compare the workspaces of two snapshots."""
        ...

    def export_branch(
        self, snapshot: Snapshot, repository: str, *, branch: str, message: str
    ) -> CommitId:
        """Make a branch in a user's repository."""
        ...

    def apply_to_checkout(self, snapshot: Snapshot, repository: str) -> tuple[bytes, ...]:
        """Write a task's changes into a user's checkout."""
        ...

    def make_patch(self, snapshot: Snapshot) -> bytes:
        """Return the patch from the base commit to a snapshot's `source_tree`."""
        ...

    def read_source_file(self, snapshot: Snapshot, path: str) -> bytes | None:
        """Return the bytes of a file of `source_tree`, or None."""
        ...


class Repositories(Protocol):
    """Our own repositories of the sources; see SandboxHost."""

    def list_repositories(self) -> Sequence[RepositoryId]:
        """Return the sources that were imported here."""
        ...

    def tidy(self, repository: RepositoryId) -> bool:
        """Join the packs of a repository's snapshots where there are many."""
        ...

    def import_source(self, source: Source) -> ImportedSource:
        """Bring a source's base commit into our own repository."""
        ...

    def base_repository(
        self, repository: RepositoryId, commit: CommitId, history: History
    ) -> Path:
        """Return the one repository that a container of that base mounts."""
        ...
