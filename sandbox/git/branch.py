"""Export: one commit as a new branch of the user's own repository.

The commit travels as a pack and the ref is created only if it does not exist, so the checkout, its
index and every other ref stay as they are. Hooks are off (see `environment`).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from sandbox.errors import BranchExistsError, SourceError
from sandbox.git.failures import show_stderr
from sandbox.git.locations import check_ref
from sandbox.git.repositories import GitRepositories
from sandbox.snapshot import CommitId, Snapshot

NO_COMMIT = "0" * 40
"""Old value of a ref that must not exist yet: git-update-ref(1)."""


class BranchExporter:
    """Makes branches in repositories of this host."""

    def __init__(self, repositories: GitRepositories) -> None:
        self._repositories = repositories
        self._git = repositories.git

    def export(
        self, snapshot: Snapshot, repository: str, *, branch: str, message: str
    ) -> CommitId:
        """Make the branch; see SandboxHost.export_branch.

        Raises:
            BranchExistsError: there is one of that name.
            SourceError: no repository, or no valid branch name.
            RepositoryError: our own objects are missing.
        """
        check_ref(repository, branch)
        user = _UserRepository(self._repositories, repository)
        user.require_free(branch)
        user.require_commit(snapshot.base_commit)
        commit = self._make_commit(snapshot, message)
        user.take_pack(self._make_pack(snapshot, commit))
        user.create_branch(branch, commit)
        return commit

    def _make_commit(self, snapshot: Snapshot, message: str) -> CommitId:
        ours = self._repositories.snapshots_repository(snapshot.repository_id)
        made = self._git.run(
            ours,
            ["commit-tree", snapshot.source_tree, "-p", snapshot.base_commit],
            stdin=message.encode("utf-8", "replace") + b"\n",
        )
        return CommitId(made.decode("ascii").strip())

    def _make_pack(self, snapshot: Snapshot, commit: CommitId) -> bytes:
        ours = self._repositories.snapshots_repository(snapshot.repository_id)
        wanted = f"{commit}\n^{snapshot.base_commit}\n"
        return self._git.run(
            ours, ["pack-objects", "--revs", "--stdout", "-q"], stdin=wanted.encode()
        )


class _UserRepository:
    """A repository of the user: only objects and one new ref are ever written."""

    def __init__(self, repositories: GitRepositories, location: str) -> None:
        self._location = location
        self._git = repositories.git
        path = Path(os.path.realpath(location))
        self._trusted = _trust(str(path), str(path / ".git"))
        checkout = path / ".git"
        asked = ["-C", str(path), "rev-parse", "--path-format=absolute", "--git-common-dir"]
        common = self._ask(
            checkout if checkout.exists() else path, asked, failure="it is not a git repository"
        )
        self._directory = Path(os.fsdecode(common.rstrip(b"\n")))
        self._trusted += _trust(str(self._directory))

    def require_commit(self, commit: CommitId) -> None:
        """Refuse a repository that has lost the base commit."""
        asked = ["cat-file", "-e", f"{commit}^{{commit}}"]
        self._ask(self._directory, asked, failure=f"it does not have the base commit {commit}")

    def take_pack(self, pack: bytes) -> None:
        """Add the pack's objects."""
        asked = ["index-pack", "--stdin", "--strict"]
        self._ask(self._directory, asked, failure="it does not take the objects", stdin=pack)

    def require_free(self, branch: str) -> None:
        """Refuse the name of a branch that exists."""
        asked = [*self._trusted, "show-ref", "--verify", "--quiet", f"refs/heads/{branch}"]
        if self._git.attempt(self._directory, asked).exit_code == 0:
            raise BranchExistsError(self._location, branch)

    def create_branch(self, branch: str, commit: CommitId) -> None:
        """Create the branch where there is none of that name."""
        asked = ["update-ref", f"refs/heads/{branch}", commit, NO_COMMIT]
        failure = f"branch {branch!r} cannot be made"
        self._ask(self._directory, asked, failure=failure)

    def _ask(
        self, directory: Path, arguments: Sequence[str], *, failure: str, stdin: bytes = b""
    ) -> bytes:
        done = self._git.attempt(directory, [*self._trusted, *arguments], stdin=stdin)
        if done.exit_code != 0:
            raise SourceError(self._location, f"{failure} ({show_stderr(done.stderr)})")
        return done.stdout


def _trust(*paths: str) -> list[str]:
    return [part for path in paths for part in ("-c", f"safe.directory={path}")]
