"""Checks the examples of a file's rules against the whole merged policy.

A `match` example holds when the rule matches and its answer stands: one that another rule
overrides would tell its reader something untrue. A `no_match` example holds when the rule does not
match.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from policies.changes import ChangeKind
from policies.decision import Decision, Verdict
from policies.document import ChangeExample, ChangePart, CommandExample, CommandPart
from policies.errors import PolicyExampleError
from policies.explain import explain_action, explain_change
from policies.layer import Layer
from policies.policy import Policy
from policies.yaml_tree import FieldPath, show_field


@dataclass(frozen=True, slots=True, kw_only=True)
class _Claim:
    """One example with the policy's answer."""

    field: FieldPath
    rule: str
    then: Verdict
    matches: bool
    """What the author says of the rule."""
    decision: Decision

    def find_problem(self) -> str:
        """Return what is wrong with the claim, or nothing."""
        decision = self.decision
        matched = self.rule in {decision.rule, *decision.also_matched}
        if matched != self.matches:
            return f"the rule {self.rule!r} {'matches it' if matched else 'does not match it'}"
        if matched and decision.verdict is not self.then:
            return f"{decision.rule!r} answers {decision.verdict.value} before this rule"
        return ""


def check_examples(layer: Layer, policy: Policy) -> None:
    """Check every example that a layer writes.

    Raises:
        PolicyExampleError: one does not hold; the first in the file.
    """
    claims = (*_list_command_claims(layer, policy), *_list_change_claims(layer, policy))
    for claim in sorted(claims, key=lambda one: layer.line_of(one.field)):
        problem = claim.find_problem()
        if problem:
            line = layer.line_of(claim.field)
            raise PolicyExampleError(layer.tree.file, line, show_field(claim.field), problem)


def _list_command_claims(layer: Layer, policy: Policy) -> Iterator[_Claim]:
    for index, part in enumerate(layer.document.commands or ()):
        place: FieldPath = ("commands", index, "examples")
        for field, example, matches in _list_command_examples(part):
            yield _Claim(
                field=(*place, *field),
                rule=part.id,
                then=part.then,
                matches=matches,
                decision=explain_action(policy, tool=example.tool, path=example.path),
            )


def _list_command_examples(
    part: CommandPart,
) -> Iterator[tuple[FieldPath, CommandExample, bool]]:
    for index, example in enumerate(part.examples.match):
        yield ("match", index), example, True
    for index, example in enumerate(part.examples.no_match):
        yield ("no_match", index), example, False


def _list_change_claims(layer: Layer, policy: Policy) -> Iterator[_Claim]:
    for index, part in enumerate(layer.document.changes or ()):
        place: FieldPath = ("changes", index, "examples")
        usual = next(iter(part.match.kinds), ChangeKind.MODIFIED)
        for field, example, matches in _list_change_examples(part):
            kind = example.kind or usual
            yield _Claim(
                field=(*place, *field),
                rule=part.id,
                then=part.then,
                matches=matches,
                decision=explain_change(policy, path=example.path, kind=kind),
            )


def _list_change_examples(part: ChangePart) -> Iterator[tuple[FieldPath, ChangeExample, bool]]:
    for index, example in enumerate(part.examples.match):
        yield ("match", index), example, True
    for index, example in enumerate(part.examples.no_match):
        yield ("no_match", index), example, False
