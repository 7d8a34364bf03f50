"""The register of live workspaces: worktree entries in `snapshots.git`.

An entry is locked with a reason that names its task, so that nobody's `git worktree prune` takes
it; ending it means unlocking, then deleting the directory, then pruning. Entries with another
reason belong to somebody else and are never touched.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sandbox.git.process import Git
from sandbox.git.repositories import GitRepositories
from sandbox.snapshot import RepositoryId

_REASON: Final = "forkyard "
_OURS: Final = _REASON.encode()


@dataclass(frozen=True, slots=True)
class WorktreeEntry:
    """One administrative directory below `snapshots.git/worktrees`."""

    folder: Path
    worktree: Path
    """The workspace that it stands for."""
    reason: str
    """Why it is locked; empty if it is not."""

    @property
    def is_ours(self) -> bool:
        """Tell whether Forkyard made it."""
        return self.reason.startswith(_REASON)


class Worktrees:
    """Adds and ends entries."""

    def __init__(self, repositories: GitRepositories) -> None:
        self._repositories = repositories
        self._git: Git = repositories.git

    def add(self, repository: RepositoryId, workspace: Path, *, task_id: str, commit: str) -> None:
        """Register a workspace, which is made empty; a stale entry of the same path is ended.

        Raises:
            RepositoryError, DiskFullError: git refused.
        """
        target = self._repositories.snapshots_repository(repository)
        with self._repositories.locked(repository):
            if self._unlock(target, workspace):
                self._prune(target)
            reason = f"{_REASON}{task_id}"
            options = ["--detach", "--no-checkout", "--lock", "--reason", reason]
            self._git.run(
                target, ["worktree", "add", "--quiet", *options, "--", str(workspace), commit]
            )
            (workspace / ".git").unlink()

    def end(self, repository: RepositoryId, workspace: Path) -> None:
        """End the entry of a workspace that is deleted already.

        Raises:
            RepositoryError: git refused.
        """
        target = self._repositories.snapshots_repository(repository)
        with self._repositories.locked(repository):
            self._unlock(target, workspace)
            self._prune(target)

    def end_below(self, directory: Path) -> int:
        """End all our entries whose workspace was somewhere below a directory, now deleted.

        Returns:
            How many there were.
        """
        ended = 0
        for repository in self._repositories.list_repositories():
            target = self._repositories.snapshots_repository(repository)
            stale = [e for e in list_entries(target) if e.worktree.is_relative_to(directory)]
            for entry in stale:
                if entry.is_ours:
                    self.end(repository, entry.worktree)
                    ended += 1
        return ended

    @staticmethod
    def _unlock(target: Path, workspace: Path) -> bool:
        found = [e for e in list_entries(target) if e.worktree == workspace and e.is_ours]
        for entry in found:
            (entry.folder / "locked").unlink(missing_ok=True)
        return bool(found)

    def _prune(self, target: Path) -> None:
        for folder in (target / "worktrees").glob("*"):
            # a process that was killed here; we hold the lock, so nobody is at it any more
            if not (folder / "gitdir").exists() and _read(folder / "locked").startswith(_OURS):
                (folder / "locked").unlink()
        self._git.run(target, ["worktree", "prune", "--expire=now"])


def list_entries(snapshots: Path) -> Iterator[WorktreeEntry]:
    """Yield the registered worktrees of a repository, whole ones only."""
    for folder in sorted((snapshots / "worktrees").glob("*")):
        pointer = _read(folder / "gitdir")
        if pointer:
            place = Path(os.fsdecode(pointer.strip())).parent
            yield WorktreeEntry(folder, place, os.fsdecode(_read(folder / "locked").strip()))


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""
