from __future__ import annotations

import pytest

from policies import (
    Action,
    Change,
    ChangeKind,
    ChangeRule,
    Changes,
    CommandRule,
    EntryKind,
    Policy,
    SandboxPolicy,
    Verdict,
    explain_action,
    explain_change,
    judge_action,
    judge_changes,
)


def make_policy(
    *rules: CommandRule | ChangeRule,
    tools: tuple[str, ...] = ("shell", "read_file", "write_file"),
    default: Verdict = Verdict.ALLOW,
) -> Policy:
    return Policy(
        name="p",
        tools=tools,
        sandbox=SandboxPolicy(),
        commands=tuple(rule for rule in rules if isinstance(rule, CommandRule)),
        changes=tuple(rule for rule in rules if isinstance(rule, ChangeRule)),
        default_command=default,
        default_change=default,
        digest="",
    )


def command_rule(
    rule_id: str = "a",
    *paths: str,
    then: Verdict = Verdict.DENY,
    tools: tuple[str, ...] = (),
    because: str = "",
) -> CommandRule:
    return CommandRule(id=rule_id, paths=paths, tools=tools, then=then, because=because)


def change_rule(
    rule_id: str = "a",
    *paths: str,
    then: Verdict = Verdict.DENY,
    kinds: tuple[ChangeKind, ...] = (),
    because: str = "",
) -> ChangeRule:
    return ChangeRule(id=rule_id, paths=paths, kinds=kinds, then=then, because=because)


def action(tool: str = "write_file", *paths: str) -> Action:
    return Action(tool=tool, arguments="{}", paths=paths)


def change(
    path: bytes = b"a",
    kind: ChangeKind = ChangeKind.MODIFIED,
    entry: EntryKind = EntryKind.FILE,
    *,
    ignored: bool = False,
) -> Change:
    return Change(path=path, kind=kind, entry=entry, ignored=ignored)


def test_a_tool_that_is_not_listed_is_denied_and_says_which_are() -> None:
    policy = make_policy(command_rule("r", then=Verdict.ALLOW), tools=("finish",))

    decision = judge_action(policy, action("shell"))

    assert (decision.verdict, decision.rule) == (Verdict.DENY, "tools")
    assert decision.reasons == ("the policy has no tool 'shell'; it has finish",)
    assert decision.also_matched == ("r",)


@pytest.mark.parametrize(
    ("verdicts", "wins"),
    [
        (("allow", "deny"), "deny"),
        (("deny", "allow"), "deny"),
        (("ask", "review"), "ask"),
        (("review", "allow"), "review"),
        (("allow", "review", "ask", "deny"), "deny"),
        (("ask", "deny"), "deny"),
    ],
)
def test_of_the_rules_that_match_the_most_severe_wins(
    verdicts: tuple[str, ...], wins: str
) -> None:
    commands = [command_rule(f"id-{one}", then=Verdict(one)) for one in verdicts]
    changes = [change_rule(f"id-{one}", then=Verdict(one)) for one in verdicts]
    policy = make_policy(*commands, *changes)

    for decision in (judge_action(policy, action()), judge_changes(policy, Changes((change(),)))):
        assert (decision.verdict, decision.rule) == (Verdict(wins), f"id-{wins}")
        assert decision.also_matched == tuple(f"id-{one}" for one in verdicts if one != wins)


def test_the_default_answers_only_where_no_rule_matches() -> None:
    policy = make_policy(
        command_rule("reads", then=Verdict.ALLOW, tools=("read_file",)), default=Verdict.DENY
    )

    assert judge_action(policy, action("read_file")).rule == "reads"
    denied = judge_action(policy, action("write_file", "src/a"))
    assert (denied.verdict, denied.rule) == (Verdict.DENY, "default")
    assert denied.reasons == ("no rule matches", "src/a")


def test_a_rule_for_paths_does_not_match_a_call_that_names_none() -> None:
    policy = make_policy(command_rule("a", "**"))

    assert judge_action(policy, action("shell")).rule == "default"
    assert judge_action(policy, action("write_file", "x")).rule == "a"


def test_a_call_with_two_paths_needs_both_to_be_allowed() -> None:
    policy = make_policy(command_rule("a", "src/**", then=Verdict.ALLOW), default=Verdict.DENY)

    assert judge_action(policy, action("write_file", "src/a", "src/b")).verdict is Verdict.ALLOW
    decision = judge_action(policy, action("write_file", "src/a", "deploy/b"))
    assert (decision.verdict, decision.rule) == (Verdict.DENY, "default")
    assert decision.reasons == ("no rule matches", "deploy/b")
    assert decision.also_matched == ("a",)


def test_an_allowing_rule_never_names_a_path_outside_the_workspace() -> None:
    policy = make_policy(command_rule("a", "**", then=Verdict.ALLOW), default=Verdict.DENY)

    assert judge_action(policy, action("write_file", "../x")).verdict is Verdict.DENY
    assert judge_action(policy, action("write_file", "/etc/x")).verdict is Verdict.DENY


def test_a_denying_rule_for_everything_names_paths_outside_too() -> None:
    policy = make_policy(command_rule("a", "**"))

    assert judge_action(policy, action("write_file", "/etc/x")).rule == "a"


def test_reasons_name_the_rules_words_and_a_handful_of_paths() -> None:
    policy = make_policy(change_rule("a", "tests/**", because="Do not change the tests"))
    changes = Changes.of(change(f"tests/t{index}".encode()) for index in range(8))

    decision = judge_changes(policy, changes)

    assert decision.reasons == (
        "Do not change the tests",
        *(f"modified tests/t{index}" for index in range(5)),
        "and 3 more",
    )


def test_invisible_characters_of_a_name_are_shown() -> None:
    policy = make_policy(change_rule())

    decision = judge_changes(policy, Changes((change(b"a\n\x1b[2J\xff\xe2\x80\xae"),)))

    assert decision.reasons == ("modified a\\n\\x1b[2J\\xff\\u202e",)


def test_one_broken_change_decides_over_many_good_ones() -> None:
    policy = make_policy(
        change_rule("tests", "tests/**"), change_rule("src", "src/**", then=Verdict.ALLOW)
    )
    changes = Changes.of([change(b"README"), change(b"src/a"), change(b"tests/a")])

    decision = judge_changes(policy, changes)

    assert (decision.verdict, decision.rule) == (Verdict.DENY, "tests")
    assert decision.reasons == ("modified tests/a",)
    assert decision.also_matched == ("src",)


def test_a_change_without_a_rule_gets_the_default_though_others_are_allowed() -> None:
    policy = make_policy(change_rule("src", "src/**", then=Verdict.ALLOW), default=Verdict.DENY)

    assert judge_changes(policy, Changes((change(b"src/a"),))).verdict is Verdict.ALLOW
    decision = judge_changes(policy, Changes.of([change(b"src/a"), change(b"b")]))
    assert (decision.verdict, decision.rule) == (Verdict.DENY, "default")
    assert decision.reasons == ("no rule matches", "modified b")


def test_no_change_is_allowed_whatever_the_default() -> None:
    decision = judge_changes(make_policy(default=Verdict.DENY), Changes())

    assert decision.verdict is Verdict.ALLOW


def test_a_rule_for_kinds_leaves_the_other_kinds_alone() -> None:
    policy = make_policy(change_rule("a", kinds=(ChangeKind.DELETED,)))

    assert judge_changes(policy, Changes((change(kind=ChangeKind.DELETED),))).rule == "a"
    assert judge_changes(policy, Changes((change(kind=ChangeKind.MODE),))).rule == "default"


ADDED, MODIFIED, DELETED, MODE = ChangeKind
FILE, DIRECTORY, SYMLINK, OTHER = EntryKind


@pytest.mark.parametrize(
    ("pattern", "path", "kind", "entry"),
    [
        ("tests/**", b"tests", DELETED, DIRECTORY),
        ("tests/**", b"tests", MODIFIED, SYMLINK),
        ("tests/**", b"tests", ADDED, SYMLINK),
        ("tests/**", b"tests", ADDED, FILE),
        ("tests/**", b"tests", ADDED, OTHER),
        ("tests/**", b"tests", MODE, DIRECTORY),
        ("tests", b"tests/a/b", MODIFIED, FILE),
        ("src/tests/**", b"src", DELETED, DIRECTORY),
        ("src/tests/**", b"src", MODIFIED, SYMLINK),
        ("src/tests/**", b"src", ADDED, FILE),
        ("src/tests/**", b"src/tests", ADDED, SYMLINK),
        ("src/tests/test_a.py", b"src/tests", ADDED, SYMLINK),
        ("src/tests/*.py", b"src/tests", DELETED, DIRECTORY),
        ("packages/*/tests/**", b"packages", DELETED, DIRECTORY),
        ("packages/*/tests/**", b"packages/a", ADDED, SYMLINK),
        ("packages/*/tests/**", b"packages/a/tests", ADDED, SYMLINK),
    ],
)
def test_a_protected_path_cannot_be_taken_away_with_what_is_above_it(
    pattern: str, path: bytes, kind: ChangeKind, entry: EntryKind
) -> None:
    policy = make_policy(change_rule("a", pattern))

    assert judge_changes(policy, Changes((change(path, kind, entry),))).rule == "a"


@pytest.mark.parametrize(
    ("pattern", "path", "kind", "entry"),
    [
        ("src/tests/**", b"src", ADDED, DIRECTORY),
        ("src/tests/**", b"src", MODE, DIRECTORY),
        ("src/tests/**", b"src/a.py", DELETED, FILE),
        ("src/tests/**", b"srcs", ADDED, SYMLINK),
        ("tests/**", b"tests2", ADDED, SYMLINK),
        ("**/conftest.py", b"pkg", ADDED, SYMLINK),
        ("**/conftest.py", b"pkg", DELETED, DIRECTORY),
        ("packages/*/tests/**", b"packages/README", MODIFIED, FILE),
        ("packages/*/tests/**", b"packages/b", DELETED, DIRECTORY),
        ("*.cfg", b"tests/a.cfg", MODIFIED, FILE),
        ("pytest.py", b"src/pytest.py", ADDED, FILE),
    ],
)
def test_what_merely_stands_near_a_protected_path_is_free(
    pattern: str, path: bytes, kind: ChangeKind, entry: EntryKind
) -> None:
    policy = make_policy(change_rule("a", pattern))

    assert judge_changes(policy, Changes((change(path, kind, entry),))).rule == "default"


def test_an_allowing_rule_reaches_no_further_than_its_globs() -> None:
    policy = make_policy(
        change_rule("a", "src/gen/**", then=Verdict.ALLOW),
        change_rule("b", "build", then=Verdict.ALLOW),
        default=Verdict.DENY,
    )

    for broken in (change(b"src", MODIFIED, SYMLINK), change(b"build/x", ADDED, FILE)):
        assert judge_changes(policy, Changes((broken,))).verdict is Verdict.DENY


def test_explaining_gives_the_decision_of_a_call_and_of_a_change() -> None:
    policy = make_policy(command_rule("call", "deploy/**"), change_rule("change", "deploy/**"))

    assert explain_action(policy, tool="write_file", path="deploy/a").rule == "call"
    assert explain_action(policy, tool="shell").rule == "default"
    assert explain_change(policy, path="deploy/a", kind=ChangeKind.ADDED).rule == "change"
    assert explain_change(policy, path=b"\xff", kind=ChangeKind.ADDED).rule == "default"
