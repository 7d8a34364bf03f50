"""Who merges the policy that a task names, and how policy files do it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from policies import (
    canonical_json,
    load_policy,
    make_constraint_rules,
    with_change_rules,
)
from runner.domain.task import ConstraintSpec


class PolicySource(Protocol):
    """Merges policies; the answer is fixed in the task when the batch is submitted."""

    def merge(
        self, name_or_path: str, *, repository: str, constraints: tuple[ConstraintSpec, ...]
    ) -> str:
        """Return canonical JSON text of the merged policy, the constraints' rules included.

        Raises:
            PolicyError: the policy or a constraint cannot be used.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePolicies:
    """Implements PolicySource with the operator's folder of policies."""

    folder: Path
    """`$FORKYARD_HOME/policies`; need not exist."""
    mount_roots: Sequence[str] = ()

    def merge(
        self, name_or_path: str, *, repository: str, constraints: tuple[ConstraintSpec, ...]
    ) -> str:
        """Merge all layers of a policy with the constraints' rules; see PolicySource."""
        policy = load_policy(
            name_or_path,
            folder=self.folder,
            repository=repository,
            mount_roots=self.mount_roots,
        )
        rules = [
            rule
            for number, constraint in enumerate(constraints, start=1)
            for rule in make_constraint_rules(
                name=f"constraint-{number}",
                protect=constraint.protect,
                forbid=constraint.forbid,
                because=constraint.text,
            )
        ]
        return canonical_json(with_change_rules(policy, rules).source).decode()
