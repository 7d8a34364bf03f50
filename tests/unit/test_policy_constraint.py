from __future__ import annotations

import pytest

from policies import (
    Change,
    ChangeKind,
    ChangeRule,
    Changes,
    Decision,
    EntryKind,
    Policy,
    RuleError,
    Verdict,
    canonical_json,
    digest_json,
    judge_changes,
    make_constraint_rules,
    parse_policy,
    with_change_rules,
)
from policies.document import Document
from policies.source import make_policy


def make_constrained(*, protect: tuple[str, ...] = (), forbid: str = "") -> Policy:
    rules = make_constraint_rules(
        name="constraint-1", protect=protect, forbid=forbid, because="The user's words"
    )
    return with_change_rules(make_policy(Document(), name="p"), rules)


def judge(policy: Policy, path: bytes, kind: ChangeKind, *, ignored: bool = False) -> Decision:
    change = Change(path=path, kind=kind, entry=EntryKind.FILE, ignored=ignored)
    return judge_changes(policy, Changes((change,)))


@pytest.mark.parametrize("kind", list(ChangeKind))
def test_a_protected_path_is_held_against_every_kind_of_change(kind: ChangeKind) -> None:
    policy = make_constrained(protect=("tests/**", "setup.cfg"))

    decision = judge(policy, b"tests/test_a.py", kind)

    assert (decision.verdict, decision.rule) == (Verdict.DENY, "constraint-1:protect")
    assert decision.reasons == ("The user's words", f"{kind.value} tests/test_a.py")
    assert judge(policy, b"setup.cfg", kind).verdict is Verdict.DENY
    assert judge(policy, b"src/a.py", kind).verdict is Verdict.ALLOW


def test_forbidding_deletion_denies_it_on_every_path_and_nothing_else() -> None:
    policy = make_constrained(forbid="delete")

    decision = judge(policy, b"any/where", ChangeKind.DELETED)

    assert (decision.verdict, decision.rule) == (Verdict.DENY, "constraint-1:forbid-delete")
    assert judge(policy, b"any/where", ChangeKind.MODIFIED).verdict is Verdict.ALLOW


def test_caches_that_never_reach_the_patch_break_no_constraint() -> None:
    policy = make_constrained(protect=("tests/**",), forbid="delete")

    cache = b"tests/__pycache__/a.pyc"
    assert judge(policy, cache, ChangeKind.ADDED, ignored=True).verdict is Verdict.ALLOW
    assert judge(policy, cache, ChangeKind.DELETED, ignored=True).verdict is Verdict.ALLOW
    assert judge(policy, cache, ChangeKind.ADDED).verdict is Verdict.DENY


def test_a_constraint_of_words_alone_makes_no_rule() -> None:
    rules = make_constraint_rules(name="c", protect=(), forbid="", because="Be kind")

    assert rules == ()


@pytest.mark.parametrize(
    ("name", "protect", "forbid", "problem"),
    [
        ("c", (), "rename", "forbids 'rename'; only 'delete'"),
        ("c", ("**.py",), "", "write"),
        ("c", ("",), "", "is empty"),
        ("a b", ("x",), "", "cannot start the id"),
    ],
)
def test_a_constraint_without_meaning_is_refused(
    name: str, protect: tuple[str, ...], forbid: str, problem: str
) -> None:
    with pytest.raises(RuleError, match=problem):
        make_constraint_rules(name=name, protect=protect, forbid=forbid, because="")


def test_added_rules_are_part_of_source_and_digest() -> None:
    plain = make_policy(Document(), name="p")

    policy = make_constrained(protect=("tests/**",), forbid="delete")

    assert policy.digest == digest_json(policy.source) != plain.digest
    assert parse_policy(policy.source) == policy
    assert b"The user's words" in canonical_json(policy.source)


def test_adding_the_same_rules_again_changes_nothing() -> None:
    policy = make_constrained(forbid="delete")

    assert with_change_rules(policy, policy.changes) == policy


def test_another_rule_under_a_known_id_is_refused() -> None:
    policy = make_constrained(forbid="delete")
    other = ChangeRule(id="constraint-1:forbid-delete", then=Verdict.ALLOW)

    with pytest.raises(RuleError, match="another rule has this id"):
        with_change_rules(policy, (other,))
