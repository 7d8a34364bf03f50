"""Change rules that do not come from a policy file: the constraints of a batch's task."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from policies.changes import ChangeKind
from policies.decision import Verdict
from policies.document import RESERVED_RULE_IDS, RULE_ID_PATTERN
from policies.errors import GlobError, RuleError
from policies.glob import parse_glob
from policies.policy import ChangeRule, Policy
from policies.source import seal_policy

FORBID_DELETE = "delete"


def make_constraint_rules(
    *, name: str, protect: Sequence[str], forbid: str, because: str
) -> tuple[ChangeRule, ...]:
    """Make the rules that hold what a user demanded.

    What the base's ignore rules keep out of the patch is not the user's: running the tests writes
    caches beside them.

    Args:
        name: start of the rules' ids.
        protect: globs of workspace paths that must stay as they are.
        forbid: `delete`, or empty.
        because: the user's words.

    Raises:
        RuleError: a glob cannot be parsed, `forbid` is unknown, or the name cannot start an id.
    """
    rules: list[ChangeRule] = []
    if protect:
        _check_globs(name, protect)
        rules.append(
            ChangeRule(
                id=_make_id(name, "protect"),
                paths=tuple(protect),
                kinds=tuple(ChangeKind),
                with_ignored=False,
                then=Verdict.DENY,
                because=because,
            )
        )
    if forbid:
        if forbid != FORBID_DELETE:
            raise RuleError(name, f"forbids {forbid!r}; only {FORBID_DELETE!r} can be forbidden")
        rules.append(
            ChangeRule(
                id=_make_id(name, "forbid-delete"),
                kinds=(ChangeKind.DELETED,),
                with_ignored=False,
                then=Verdict.DENY,
                because=because,
            )
        )
    return tuple(rules)


def with_change_rules(policy: Policy, rules: Iterable[ChangeRule]) -> Policy:
    """Return the policy with more change rules, `source` and `digest` made anew.

    Raises:
        RuleError: the id of a rule is one of another rule's.
    """
    united = list(policy.changes)
    known = {rule.id: rule for rule in united}
    for rule in rules:
        if rule.id not in known:
            known[rule.id] = rule
            united.append(rule)
        elif known[rule.id] != rule:
            raise RuleError(rule.id, "another rule has this id")
    return seal_policy(replace(policy, changes=tuple(united)))


def _check_globs(name: str, patterns: Sequence[str]) -> None:
    for pattern in patterns:
        try:
            parse_glob(pattern)
        except GlobError as error:
            raise RuleError(name, str(error)) from error


def _make_id(name: str, what: str) -> str:
    rule_id = f"{name}:{what}"
    if re.fullmatch(RULE_ID_PATTERN, rule_id) is None or rule_id in RESERVED_RULE_IDS:
        raise RuleError(name, "cannot start the id of a rule; write letters, digits, - and _")
    return rule_id
