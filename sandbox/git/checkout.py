"""Export: a task's changes as unstaged changes in the checkout that the user works in.

All is checked before anything is written: HEAD, the index and the files have to be as the base
commit has them wherever the task changed something. The index and all refs stay as they are.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from sandbox.errors import CheckoutConflictError, SandboxError, SourceError
from sandbox.git.checkout_check import READ_DIRECTORY, CheckoutCheck, list_related
from sandbox.git.failures import translated_checkout_errors
from sandbox.git.placing import Placement
from sandbox.git.repositories import GitRepositories
from sandbox.git.touched import TouchedPath, list_touched
from sandbox.git.user_repository import UserRepository
from sandbox.snapshot import Snapshot


class CheckoutWriter:
    """Writes into checkouts of this host."""

    def __init__(self, repositories: GitRepositories) -> None:
        self._repositories = repositories

    def apply(self, snapshot: Snapshot, repository: str) -> tuple[bytes, ...]:
        """Write the changes; see SandboxHost.apply_to_checkout.

        Raises:
            CheckoutConflictError: something of the user's would be lost; nothing was written.
            SourceError: there is no checkout, or it cannot be written.
            DiskFullError: no room is left; all was undone.
            RepositoryError: our own objects are missing.
        """
        user = UserRepository(self._repositories.git, repository)
        place = user.find_checkout()
        base = self._repositories.find_users_commit(snapshot.repository_id, snapshot.base_commit)
        user.require_commit(base)
        ours = self._repositories.snapshots_repository(snapshot.repository_id)
        touched = list_touched(self._repositories.git, ours, snapshot)
        problems = _say(touched, user.list_moved(base), "HEAD has another version")
        if base == snapshot.base_commit:  # else what is staged was perhaps included, and stays
            problems += _say(touched, user.list_staged(), "it is staged")
        with translated_checkout_errors(repository):
            root = os.open(place, READ_DIRECTORY)
            try:
                check = CheckoutCheck(root, touched)
                problems += [(one.path, check.find_problem(one)) for one in touched]
                _refuse(repository, problems)
                self._write(snapshot, repository, touched, root=root)
            finally:
                os.close(root)
        return tuple(one.path for one in touched)

    def _write(
        self, snapshot: Snapshot, repository: str, touched: Sequence[TouchedPath], *, root: int
    ) -> None:
        with self._repositories.open_reader(snapshot.repository_id) as reader:
            placement = Placement(root, repository)
            try:
                with placement:
                    placement.write(touched, reader)
            except (OSError, SandboxError) as error:
                if not placement.kept:
                    raise
                folder = os.fsdecode(placement.staging_name)
                kept = f"{placement.kept} of your files could not be put back and are in {folder}"
                raise SourceError(repository, f"{error}; {kept}") from error


def _say(
    touched: Sequence[TouchedPath], others: frozenset[bytes], problem: str
) -> list[tuple[bytes, str]]:
    return [(one.path, problem) for one in list_related(touched, others)]


def _refuse(repository: str, problems: Sequence[tuple[bytes, str]]) -> None:
    first: dict[bytes, str] = {}
    for path, problem in problems:
        if problem:
            first.setdefault(path, problem)
    if first:
        raise CheckoutConflictError(repository, sorted(first.items()))
