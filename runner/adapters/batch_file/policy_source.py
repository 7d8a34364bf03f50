"""Port of the loader: who merges the policy that a task names."""

from __future__ import annotations

from typing import Protocol

from runner.domain.task import ConstraintSpec


class PolicySource(Protocol):
    """Merges policies; the answer is fixed in the task when the batch is submitted."""

    def merge(
        self, name_or_path: str, *, repository: str, constraints: tuple[ConstraintSpec, ...]
    ) -> str:
        """Return canonical JSON text of the merged policy, the constraints' rules included.

        Raises:
            PolicyFileError: the policy cannot be used.
        """
        ...
