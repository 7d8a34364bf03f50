from __future__ import annotations

from decimal import Decimal

import pytest

from policies import PolicyFileError, PolicyRefusedError
from policies.layer import parse_layer

WHOLE = """\
version: 1
name: repair
tools: [shell, read_file]
sandbox:
  network: {mode: open}
  setup_network: [none, open]
  rootfs: read-only
  mounts: [{source: /srv/data, target: /data, mode: ro}]
  env: {pass: [LANG], set: {CI: "1", ON: on}}
  limits: {memory_mib: 2048, cpus: 0.25, pids: 256}
  disk: watched
commands:
  - id: no-secrets
    match: {tool: read_file, paths: ["secrets/**"]}
    then: deny
    because: Nobody needs them.
    examples: {match: [{tool: read_file, path: secrets/a}], no_match: [{tool: shell}]}
changes:
  - id: protect-deploy
    match: {paths: ["deploy/**"], kinds: [added, modified, deleted]}
    then: deny
    examples: {match: [deploy/a, {path: deploy/b, kind: deleted}], no_match: [README]}
default: {commands: allow, changes: deny}
"""


def test_a_file_with_every_key_is_read() -> None:
    document = parse_layer(WHOLE, file="p.yaml").document

    assert document.tools == ("shell", "read_file")
    assert document.sandbox is not None
    assert document.sandbox.limits is not None
    assert document.sandbox.limits.cpus == Decimal("0.25")
    assert document.sandbox.limits.inodes is None
    assert document.sandbox.env is not None
    assert document.sandbox.env.set == {"CI": "1", "ON": "on"}
    assert document.commands is not None
    assert document.commands[0].match.tool == ("read_file",)


def test_every_key_may_be_left_out() -> None:
    assert parse_layer("{}", file="p.yaml").document.tools is None


@pytest.mark.parametrize(
    ("text", "line", "field", "expected"),
    [
        ("version: 2", 1, "version", "expected 1"),
        ("version: true", 1, "version", "expected a whole number"),
        ("version: '1'", 1, "version", "expected a whole number"),
        ("version: 1\ntoolz: []", 2, "toolz", "known here are version, name, tools"),
        ("version: 1\nname: a\nname: b", 3, "name", "first in line 2"),
        ("tools: shell", 1, "tools", "expected a list"),
        ("tools:\n  - shell\n  - 5", 3, "tools[1]", "expected text"),
        ("tools:", 1, "tools", "has no value"),
        ("name: 1.5", 1, "name", "expected text"),
        ("sandbox:\n  limits:\n    cpus: x", 3, "sandbox.limits.cpus", "1 or 0.25"),
        ("sandbox:\n  limits:\n    cpus: 0.0005", 3, "sandbox.limits.cpus", "from 0.001"),
        ("sandbox:\n  limits:\n    cpus: 0.2505", 3, "sandbox.limits.cpus", "three digits"),
        ("sandbox:\n  limits:\n    cpus: true", 3, "sandbox.limits.cpus", "1 or 0.25"),
        ("sandbox:\n  limits:\n    pids: 0", 3, "sandbox.limits.pids", "at least 1"),
        ("sandbox:\n  limits:\n    pids: 2.0", 3, "sandbox.limits.pids", "a whole number"),
        ("sandbox:\n  limits:\n    pid: 2", 3, "sandbox.limits.pid", "memory_mib, cpus, pids"),
        ("sandbox: {env: {pass: [API_KEY]}}", 1, "sandbox.env.pass[0]", "secret"),
        ("sandbox: {env: {set: {gh_token: x}}}", 1, "sandbox.env.set.gh_token", "secret"),
        ("sandbox: {env: {set: {MY_SECRET: x}}}", 1, "sandbox.env.set.MY_SECRET", "secret"),
        ("sandbox: {env: {set: {DB_PASSWORD: x}}}", 1, "sandbox.env.set.DB_PASSWORD", "secret"),
        (
            "sandbox: {env: {set: {A_CREDENTIALS: x}}}",
            1,
            "sandbox.env.set.A_CREDENTIALS",
            "secret",
        ),
        ("sandbox: {env: {set: {A-B: x}}}", 1, "sandbox.env.set.A-B", "name of a variable"),
        ("sandbox: {env: {set: {A: 1}}}", 1, "sandbox.env.set.A", "expected text; quote"),
        ("sandbox: {env: {passes: []}}", 1, "sandbox.env.passes", "known here are pass, set"),
        ("sandbox: {network: {mode: wide}}", 1, "sandbox.network.mode", "'open', found 'wide'"),
        (
            "sandbox: {mounts: [{source: a, target: /a}]}",
            1,
            "sandbox.mounts[0].source",
            "absolute",
        ),
        (
            "sandbox: {mounts: [{source: /a/../b, target: /a}]}",
            1,
            "sandbox.mounts[0].source",
            "without ..",
        ),
        (
            "sandbox: {mounts: [{source: /a, target: /workspace/a}]}",
            1,
            "sandbox.mounts[0].target",
            "/workspace",
        ),
        (
            "sandbox: {mounts: [{source: /a, target: /forkyard/base.git}]}",
            1,
            "sandbox.mounts[0].target",
            "/forkyard",
        ),
        (
            "sandbox: {mounts: [{source: /a, target: /home}]}",
            1,
            "sandbox.mounts[0].target",
            "/home/agent",
        ),
        (
            "sandbox:\n  mounts: [{source: /a, target: /x}, {source: /b, target: /x}]",
            2,
            "sandbox.mounts",
            "same target",
        ),
        ("changes: [{id: a, then: deny}]", 1, "changes[0].match", "is missing"),
        ("changes: [{id: default, match: {}, then: deny}]", 1, "changes[0].id", "no rule gave"),
        ("changes: [{id: a b, match: {}, then: deny}]", 1, "changes[0].id", "of the form"),
        ("changes: [{id: a, match: {}, then: stop}]", 1, "changes[0].then", "'deny', found"),
        (
            "changes:\n  - id: a\n    match: {paths: []}\n    then: deny",
            3,
            "changes[0].match.paths",
            "would match nothing",
        ),
        (
            "changes:\n- id: a\n  then: deny\n  match:\n    paths:\n    - ok\n    - '**.py'",
            7,
            "changes[0].match.paths[1]",
            "write **/",
        ),
        ("default: {commands: perhaps}", 1, "default.commands", "expected 'allow'"),
        ("- a", 1, "file", "expected a mapping"),
        ("", 1, "file", "is empty"),
        ("a: [", 1, "file", "not YAML"),
        ("a: 1\n---\nb: 1", 2, "file", "not YAML"),
        ("tools: &t [shell]\nname: *t", 2, "name", "anchor"),
        ("tools: !!set {a}", 1, "tools", "tag"),
        ("a: \x07", 1, "file", "control characters"),
        ('name: "\\ud800"', 1, "name", "surrogate"),
        ('{"\\ud800": 1}', 1, "file", "key that is not text"),
        ("[" * 1000, 1, "file", "too deeply"),
    ],
)
def test_an_error_names_file_line_field_and_what_was_expected(
    text: str, line: int, field: str, expected: str
) -> None:
    with pytest.raises(PolicyFileError) as caught:
        parse_layer(text, file="p.yaml")

    assert str(caught.value).startswith(f"p.yaml:{line}: {field}: ")
    assert expected in caught.value.problem


def test_the_value_of_a_refused_variable_is_not_repeated() -> None:
    with pytest.raises(PolicyFileError) as caught:
        parse_layer("sandbox: {env: {set: {API_KEY: hunter2}}}", file="p.yaml")

    assert "hunter2" not in str(caught.value)


def test_of_several_problems_the_first_in_the_file_is_named() -> None:
    with pytest.raises(PolicyFileError) as caught:
        parse_layer("version: 1\nextra: 1\ntools: x\n", file="p.yaml")

    assert caught.value.line == 2


RULE = "- id: a\n    then: deny\n    match: "


@pytest.mark.parametrize(
    ("text", "line", "field"),
    [
        (f"commands:\n  {RULE}{{tool: shell, argv: [git]}}", 4, "commands[0].match.argv"),
        ("commands: [{id: a, match: {}, then: review}]", 1, "commands[0].then"),
        ("commands: [{id: a, match: {}, then: ask}]", 1, "commands[0].then"),
        ("changes: [{id: a, match: {}, then: review}]", 1, "changes[0].then"),
        ("changes:\n- {id: b, match: {}, then: deny}\n- {then: ask}", 3, "changes[1].then"),
        ("default: {commands: ask}", 1, "default.commands"),
        ("default: {changes: review}", 1, "default.changes"),
        ("version: 1\nreviewer: {provider: x}", 2, "reviewer"),
        ("approvals: {expire_minutes: 5}", 1, "approvals"),
        ("sandbox:\n  network: {mode: allowlist}", 2, "sandbox.network.mode"),
        ("sandbox:\n  network: {mode: none, hosts: []}", 2, "sandbox.network.hosts"),
        ("sandbox: {setup_network: [none, allowlist]}", 1, "sandbox.setup_network[1]"),
        ("sandbox:\n  disk: hard\n  rootfs: writable", 3, "sandbox.rootfs"),
        (
            f"commands:\n  {RULE}{{}}\n    examples: {{match: [git push]}}",
            5,
            "commands[0].examples.match[0]",
        ),
    ],
)
def test_a_feature_that_is_not_enforced_yet_is_refused_by_name(
    text: str, line: int, field: str
) -> None:
    with pytest.raises(PolicyRefusedError) as caught:
        parse_layer(text, file="p.yaml")

    assert (caught.value.file, caught.value.line, caught.value.field) == ("p.yaml", line, field)
    assert "is not enforced by this release" in caught.value.problem
