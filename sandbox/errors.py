"""Errors of the sandbox package: what stopped us from knowing, never a failing command.

SandboxError
├── SourceError              the repository cannot be used: the user's input is wrong
├── BranchExistsError        the branch to be made is there already
├── CheckoutConflictError    the user's checkout has something of its own in the way
├── ImageMissingError        the image is not on the engine; nothing is ever pulled silently
├── UnsupportedError         the policy asks for what this host or engine cannot enforce
├── CommandRefusedError      a command could not be started as it stands: the caller's input
├── EngineError              the engine refused or failed
│   └── EngineUnavailableError   it does not answer: retry
├── SandboxLostError         the container is gone or answers no more: rebuild from the snapshot
├── DiskFullError            the host or the task's volume has no room left
├── SnapshotError            a snapshot cannot be taken, found or restored
│   └── PatchTooLargeError       its difference from the base is larger than a patch may be
└── RepositoryError          one of our own repositories does not do what git promises
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from policies import show_path

_SHOWN_PATHS: Final = 20


class SandboxError(Exception):
    """Anything that stops a sandbox from being made, used or read."""


class SourceError(SandboxError):
    """The repository, commit or archive that a task names cannot be used."""

    def __init__(self, source: str, problem: str) -> None:
        self.source = source
        self.problem = problem
        super().__init__(f"repository {source!r}: {problem}")


class BranchExistsError(SandboxError):
    """A branch that an export would make exists already."""

    def __init__(self, repository: str, branch: str) -> None:
        self.repository = repository
        self.branch = branch
        super().__init__(f"repository {repository!r}: branch {branch!r} exists; name another")


class CheckoutConflictError(SandboxError):
    """Writing to a checkout would lose something of the user's, or lead elsewhere."""

    def __init__(self, repository: str, conflicts: Sequence[tuple[bytes, str]]) -> None:
        self.repository = repository
        self.conflicts = tuple(conflicts)
        """Each path with what is wrong there."""
        shown = [f"{show_path(path)!r}: {why}" for path, why in self.conflicts[:_SHOWN_PATHS]]
        left_out = len(self.conflicts) - len(shown)
        more = [f"and {left_out} more"] if left_out else []
        listed = "; ".join([*shown, *more])
        super().__init__(f"repository {repository!r}: nothing was written: {listed}")


class ImageMissingError(SandboxError):
    """The image is not on the engine."""

    def __init__(
        self,
        image: str,
        *,
        problem: str = "is not on this engine, and nothing is pulled silently",
        remedy: str = "run `forkyard images build`, or `docker pull` it first",
    ) -> None:
        self.image = image
        super().__init__(f"image {image!r} {problem}: {remedy}")


class UnsupportedError(SandboxError):
    """The policy asks for something that this host or engine cannot enforce."""


class CommandRefusedError(SandboxError):
    """A command breaks a rule of form (NUL, size, working directory); nothing was started."""

    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__(f"the command cannot be started: {problem}")


class EngineError(SandboxError):
    """The engine refused a request or failed while doing it."""


class EngineUnavailableError(EngineError):
    """The engine does not answer."""


class SandboxLostError(SandboxError):
    """The container died, vanished or cannot be proved clean."""


class DiskFullError(SandboxError):
    """No room is left where the work has to be written."""


class SnapshotError(SandboxError):
    """A snapshot cannot be taken, found or restored."""


class PatchTooLargeError(SnapshotError):
    """The difference from the base has more bytes than a patch may have."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        super().__init__(f"the patch has more than {limit_bytes} bytes; make a branch instead")


class RepositoryError(SandboxError):
    """One of our own repositories failed."""
