"""The port: containers with a workspace attached, and the store of their snapshots.

Two implementations of `SandboxHost` share one contract (tests/contract/test_sandbox_host.py): the
in-memory double (sandbox/testing.py) and Docker with a restored volume (sandbox/docker). One that
forks a whole container is to stand beside them: nothing here says how files reach a container.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from policies import Changes, DiskLimit, Limits, Mount, Network, RootFilesystem
from sandbox.command import Command, CommandResult, StopSignal
from sandbox.snapshot import CommitId, Snapshot, SnapshotTaken
from sandbox.source import ImportedSource, Source


@dataclass(frozen=True, slots=True, kw_only=True)
class LaidSource:
    """Another snapshot's `source_tree`, laid over the starting files beforehand."""

    snapshot: Snapshot
    restore: tuple[str, ...] = ()
    """Globs of workspace paths that stay as the starting snapshot has them; a plain path stands
    for all that lies below it too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxSpec:
    """All that a sandbox is made from."""

    task_id: str
    purpose: str = "agent"
    """agent, setup or verify; part of the container's name and of its volume's."""
    attempt: int
    image: str
    """Image id (`sha256:…`), resolved before."""
    start: Snapshot
    lay: LaidSource | None = None
    limits: Limits
    network: Network
    rootfs: RootFilesystem = RootFilesystem.READ_ONLY
    disk: DiskLimit = DiskLimit.HARD
    mounts: tuple[Mount, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    line: str = ""
    """Name of the line of snapshots that its own go to; empty for the task's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """What is free on a file system that sandboxes fill."""

    used_for: str
    """home or engine."""
    path: str
    free_bytes: int
    free_inodes: int | None
    """None where the file system does not count them."""


class Sandbox(Protocol):
    """A running container with a live workspace. Used by one thread at a time."""

    @property
    def sandbox_id(self) -> str:
        """The engine's id of the container."""
        ...

    def run(self, command: Command, *, stop: StopSignal | None = None) -> CommandResult:
        """Run a command; return when it and every process it started are gone.

        Raises:
            SandboxLostError: the container died, or could not be proved clean afterwards.
            EngineUnavailableError: the engine stopped answering.
        """
        ...

    def take_snapshot(self) -> SnapshotTaken:
        """Record the files as they are now; nothing may be running.

        Raises:
            SnapshotError: the files cannot be recorded whole; nothing was recorded.
            DiskFullError: the host has no room for it.
        """
        ...

    def take_start(self) -> SnapshotTaken:
        """Record the files as what tasks start from; nothing may be running.

        Whatever is new in the workspace counts as ignored from here on: it is part of the start,
        never of `source_tree`. That differs from the former only where tracked files do.

        Raises:
            SnapshotError, DiskFullError: as take_snapshot.
        """
        ...

    def restore(self, snapshot: Snapshot) -> None:
        """Put the files back to a snapshot of this task; nothing may be running.

        Raises:
            SnapshotError: the restored files do not give the snapshot's id.
        """
        ...


class SandboxHost(Protocol):
    """Makes sandboxes on this machine and keeps their snapshots."""

    def check_engine(self) -> None:
        """Ask what makes containers for a sign of life.

        Raises:
            EngineUnavailableError: there is none.
        """
        ...

    def list_rooms(self) -> Sequence[Room]:
        """Return what is free where volumes, store and containers are, each place once.

        Raises:
            EngineError: the engine does not say where its containers are.
        """
        ...

    def resolve_image(self, reference: str) -> str:
        """Return the image id (`sha256:…`) of a local reference.

        Raises:
            ImageMissingError: it is not on the engine.
        """
        ...

    def import_source(self, source: Source) -> ImportedSource:
        """Bring a source's base commit into our own repository; idempotent.

        Raises:
            SourceError: the location, ref or archive cannot be used.
        """
        ...

    def start_snapshot(self, source: ImportedSource, *, task_id: str) -> Snapshot:
        """Return the snapshot of an untouched checkout with empty HOME and /tmp."""
        ...

    def open_sandbox(self, spec: SandboxSpec) -> AbstractContextManager[Sandbox]:
        """Make a container on a snapshot; leaving the context removes it and its volume.

        Raises:
            ImageMissingError, UnsupportedError: before anything is made.
            EngineError, DiskFullError, SnapshotError: nothing is left behind.
        """
        ...

    def changes_between(self, before: Snapshot, after: Snapshot) -> Changes:
        """Compare the workspaces of two snapshots of one repository."""
        ...

    def make_patch(self, snapshot: Snapshot) -> bytes:
        """Return the patch that turns the base commit into `source_tree` exactly.

        Raises:
            SnapshotError: it is too large to be held in memory.
        """
        ...

    def export_branch(
        self, snapshot: Snapshot, repository: str, *, branch: str, message: str
    ) -> CommitId:
        """Make a branch in a user's repository: `source_tree` as one commit on the base commit.

        The checkout, its index and every other ref stay as they are; no hook runs.

        Raises:
            BranchExistsError: there is one of that name.
            SourceError: no repository, or no valid branch name.
        """
        ...

    def apply_to_checkout(self, snapshot: Snapshot, repository: str) -> tuple[bytes, ...]:
        """Write what `source_tree` changes into the checkout that a user works in, or nothing.

        The index and every ref stay as they are: what was written shows as unstaged changes.

        Returns:
            The paths that were added, changed or deleted.

        Raises:
            CheckoutConflictError: HEAD, index or files differ from the base commit in one of these
                paths, something is in the way, or a link leads elsewhere; nothing was written.
            SourceError: there is no checkout, or it cannot be written.
        """
        ...

    def read_source_file(self, snapshot: Snapshot, path: str) -> bytes | None:
        """Return the bytes of a file of `source_tree`, or None if there is no such file."""
        ...

    def reap(self, find_live: Callable[[], Collection[tuple[str, int]]]) -> int:
        """Remove what this instance made for other than the live (task id, attempt) pairs.

        Args:
            find_live: asked after everything has been listed, so that what is being made meanwhile
                is never taken for a left-over.

        Returns:
            How many containers and volumes were removed.
        """
        ...

    def tidy(self) -> None:
        """Keep the stores of snapshots small and quick; safe while tasks live."""
        ...

    def release(self, task_id: str) -> None:
        """Forget a task's worktree entry and volume; its snapshots stay."""
        ...
