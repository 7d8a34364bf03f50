"""Repositories of the in-memory double's user: what an export finds, and what it leaves."""

from __future__ import annotations

from collections.abc import Mapping

from sandbox.errors import BranchExistsError, CheckoutConflictError, SourceError
from sandbox.snapshot import CommitId
from sandbox.testing_files import MemoryEntry

_PREFIX = "workspace/"


class MemoryUserRepository:
    """One repository with a checkout; a test may change `files` as its user would."""

    def __init__(self, location: str, files: Mapping[str, bytes]) -> None:
        self._location = location
        self.files = {f"{_PREFIX}{name}": MemoryEntry(data) for name, data in files.items()}
        """The checkout, by the same names as in a snapshot."""
        self.branches: dict[str, CommitId] = {}
        """Branches that were exported, by name."""

    def add_branch(self, branch: str, commit: CommitId) -> None:
        """Make a branch; see SandboxHost.export_branch."""
        if branch.startswith("-"):
            raise SourceError(self._location, f"{branch!r} is no name of a branch")
        if branch in self.branches:
            raise BranchExistsError(self._location, branch)
        self.branches[branch] = commit

    def apply(
        self, base: Mapping[str, MemoryEntry], source: Mapping[str, MemoryEntry]
    ) -> tuple[bytes, ...]:
        """Write a difference into the checkout; see SandboxHost.apply_to_checkout."""
        touched = sorted(n for n in {*base, *source} if base.get(n) != source.get(n))
        taken = [name for name in touched if self.files.get(name) != base.get(name)]
        if taken:
            problem = "it is not as the base commit has it"
            raise CheckoutConflictError(self._location, [(_path(n), problem) for n in taken])
        for name in touched:
            self.files.pop(name, None)
        self.files.update({name: source[name] for name in touched if name in source})
        return tuple(_path(name) for name in touched)


def _path(name: str) -> bytes:
    return name.removeprefix(_PREFIX).encode()
