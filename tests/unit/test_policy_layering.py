from __future__ import annotations

from collections.abc import Sequence

import pytest

from policies import (
    DiskLimit,
    Limits,
    Mount,
    NetworkMode,
    Policy,
    PolicyExampleError,
    PolicyFileError,
    RootFilesystem,
    Verdict,
)
from policies.layer import parse_layer
from policies.layering import merge_layers

CEILING = "tools: [shell, read_file, write_file, finish]"


def load(*texts: str, mount_roots: Sequence[str] = ()) -> Policy:
    layers = [
        parse_layer(text, file=f"layer{index}.yaml")
        for index, text in enumerate((CEILING, *texts))
    ]
    return merge_layers(layers, mount_roots=mount_roots, name="given")


def test_the_defaults_that_nobody_wrote_are_the_strict_ones() -> None:
    policy = load("version: 1")

    assert policy.name == "given"
    assert policy.tools == ("shell", "read_file", "write_file", "finish")
    assert policy.sandbox.network.mode is NetworkMode.NONE
    assert policy.sandbox.setup_network == (NetworkMode.NONE,)
    assert policy.sandbox.rootfs is RootFilesystem.READ_ONLY
    assert policy.sandbox.disk is DiskLimit.HARD
    assert policy.sandbox.mounts == ()
    assert policy.sandbox.env_pass == ()
    assert policy.sandbox.env_set == ()
    assert policy.sandbox.limits == Limits()
    assert (policy.default_command, policy.default_change) == (Verdict.ALLOW, Verdict.ALLOW)


def test_a_number_may_be_larger_than_the_default_where_no_layer_limits_it() -> None:
    policy = load("sandbox: {limits: {memory_mib: 9000, cpus: 2.5}}")

    assert policy.sandbox.limits.memory_mib == 9000
    assert policy.sandbox.limits.cpu_thousandths == 2500


def test_no_tools_written_empty_allows_none() -> None:
    assert load("tools: []").tools == ()


@pytest.mark.parametrize(
    ("text", "line", "field"),
    [
        ("tools:\n- shell\n- shel", 3, "tools[1]"),
        (
            "commands:\n- id: a\n  match: {tool: shel}\n  then: deny",
            3,
            "commands[0].match.tool[0]",
        ),
    ],
)
def test_a_tool_that_does_not_exist_is_an_error(text: str, line: int, field: str) -> None:
    with pytest.raises(PolicyFileError, match="there are shell, read_file") as caught:
        load(text)

    assert (caught.value.file, caught.value.line) == ("layer1.yaml", line)
    assert caught.value.field == field


def test_a_mount_below_a_released_folder_is_granted() -> None:
    policy = load(
        "sandbox: {mounts: [{source: /srv/data/x, target: /x, mode: rw}]}",
        mount_roots=["/srv/data/"],
    )

    assert policy.sandbox.mounts == (Mount(source="/srv/data/x", target="/x", writable=True),)


@pytest.mark.parametrize("roots", [(), ("/srv/data/xy",), ("/srv/dat",), ("/other",)])
def test_a_mount_from_elsewhere_is_an_error(roots: Sequence[str]) -> None:
    with pytest.raises(PolicyFileError, match="released") as caught:
        load("sandbox:\n  mounts: [{source: /srv/data/x, target: /x}]", mount_roots=roots)

    assert (caught.value.line, caught.value.field) == (2, "sandbox.mounts[0].source")


def change_rule(
    match: str = "{}", *, then: str = "deny", extra: str = "", rule_id: str = "a"
) -> str:
    return f"- id: {rule_id}\n  match: {match}\n  then: {then}\n{extra}"


def test_one_id_for_two_rules_is_an_error_that_names_both_places() -> None:
    first = "changes:\n" + change_rule()
    second = "version: 1\nchanges:\n" + change_rule("{kinds: [added]}")

    with pytest.raises(PolicyFileError, match=r"layer1\.yaml:2") as caught:
        load(first, second)

    assert (caught.value.file, caught.value.line) == ("layer2.yaml", 3)


def test_one_id_twice_in_a_file_is_an_error() -> None:
    with pytest.raises(PolicyFileError, match="already"):
        load("changes:\n" + change_rule() + change_rule())


def test_the_same_rule_in_two_layers_is_one_rule() -> None:
    policy = load("changes:\n" + change_rule(), "changes:\n" + change_rule())

    assert [rule.id for rule in policy.changes] == ["a"]


def test_a_call_and_a_change_may_have_rules_of_one_id() -> None:
    policy = load("commands:\n" + change_rule() + "changes:\n" + change_rule())

    assert policy.commands[0].id == policy.changes[0].id


EXAMPLES = "  examples:\n    match: [{}]\n    no_match: [{}]\n"


def test_examples_that_hold_let_the_policy_load() -> None:
    policy = load(
        "changes:\n"
        + change_rule("{paths: ['deploy/**']}", extra=EXAMPLES.format("deploy/a", "README"))
        + "commands:\n"
        + change_rule(
            "{tool: [shell, read_file]}",
            extra=EXAMPLES.format("{tool: shell}", "{tool: write_file, path: a}"),
        )
    )

    assert len(policy.changes) == len(policy.commands) == 1


@pytest.mark.parametrize(
    ("text", "line", "field", "problem"),
    [
        (
            "changes:\n"
            + change_rule("{paths: ['deploy/**']}", extra=EXAMPLES.format("depoy/a", "README")),
            6,
            "changes[0].examples.match[0]",
            "the rule 'a' does not match it",
        ),
        (
            "changes:\n"
            + change_rule("{paths: ['deploy/**']}", extra=EXAMPLES.format("deploy/a", "deploy/b")),
            7,
            "changes[0].examples.no_match[0]",
            "the rule 'a' matches it",
        ),
        (
            "changes:\n"
            + change_rule("{kinds: [added]}", extra=EXAMPLES.format("{path: a, kind: mode}", "")),
            6,
            "changes[0].examples.match[0]",
            "does not match it",
        ),
        (
            "commands:\n"
            + change_rule("{tool: shell}", extra=EXAMPLES.format("{tool: finish}", "")),
            6,
            "commands[0].examples.match[0]",
            "does not match it",
        ),
        (
            "changes:\n"
            + change_rule("{paths: [a]}", then="allow", extra=EXAMPLES.format("a", ""))
            + change_rule("{}", rule_id="b"),
            6,
            "changes[0].examples.match[0]",
            "'b' answers deny before this rule",
        ),
    ],
)
def test_an_example_that_does_not_hold_stops_the_load(
    text: str, line: int, field: str, problem: str
) -> None:
    with pytest.raises(PolicyExampleError, match=problem) as caught:
        load(text)

    assert (caught.value.file, caught.value.line) == ("layer1.yaml", line)
    assert caught.value.field == field


def test_an_example_is_judged_by_the_rules_of_all_layers() -> None:
    outer = "changes:\n" + change_rule("{paths: ['gen/**']}", rule_id="outer")
    inner = "changes:\n" + change_rule("{}", then="allow", extra=EXAMPLES.format("gen/a", ""))

    with pytest.raises(PolicyExampleError, match="'outer' answers deny") as caught:
        load(outer, inner)

    assert caught.value.file == "layer2.yaml"


def test_an_example_of_a_tool_that_the_policy_lacks_is_overridden() -> None:
    rule = change_rule("{tool: shell}", then="allow", extra=EXAMPLES.format("{tool: shell}", ""))

    with pytest.raises(PolicyExampleError, match="'tools' answers deny"):
        load("tools: [finish]\ncommands:\n" + rule)
