"""Export: one commit as a new branch of the user's own repository.

The commit travels as a pack and the ref is created only if it does not exist, so the checkout, its
index and every other ref stay as they are. Hooks are off (see `environment`).
"""

from __future__ import annotations

from sandbox.errors import RepositoryError, SourceError
from sandbox.git.locations import check_ref
from sandbox.git.repositories import GitRepositories
from sandbox.git.touched import list_touched
from sandbox.git.user_repository import UserRepository
from sandbox.snapshot import CommitId, History, Snapshot


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
            RepositoryError: our own objects are missing, or hold what is never exported.
        """
        check_ref(repository, branch)
        if branch == "HEAD":
            raise SourceError(repository, "'HEAD' is no name of a branch; give another")
        self._require_safe(snapshot)
        user = UserRepository(self._git, repository)
        user.require_free(branch)
        known = self._repositories.find_users_commit(snapshot.repository_id, snapshot.base_commit)
        user.require_commit(known)
        commit = self._make_commit(snapshot, message)
        user.take_pack(self._make_pack(snapshot, commit, known=known))
        user.create_branch(branch, commit)
        return commit

    def _require_safe(self, snapshot: Snapshot) -> None:
        ours = self._repositories.snapshots_repository(snapshot.repository_id)
        for one in list_touched(self._git, ours, snapshot):
            if one.problem:
                raise RepositoryError(f"{one.path!r} in {snapshot.source_tree}: {one.problem}")

    def _make_commit(self, snapshot: Snapshot, message: str) -> CommitId:
        ours = self._repositories.snapshots_repository(snapshot.repository_id)
        made = self._git.run(
            ours,
            ["commit-tree", snapshot.source_tree, "-p", snapshot.base_commit],
            stdin=message.encode("utf-8", "replace") + b"\n",
        )
        return CommitId(made.decode("ascii").strip())

    def _make_pack(self, snapshot: Snapshot, commit: CommitId, *, known: CommitId) -> bytes:
        ours = self._repositories.snapshots_repository(snapshot.repository_id)
        wanted = f"{commit}\n^{known}\n"
        if known != snapshot.base_commit and snapshot.history is History.SHALLOW:
            wanted = f"--shallow {snapshot.base_commit}\n{commit}\n"  # we have nothing below it
        return self._git.run(
            ours, ["pack-objects", "--revs", "--stdout", "-q"], stdin=wanted.encode()
        )
