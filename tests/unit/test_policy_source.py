from __future__ import annotations

import json
from dataclasses import replace

import pytest

from policies import (
    Json,
    Network,
    NetworkMode,
    Policy,
    PolicyError,
    PolicyRefusedError,
    canonical_json,
    digest_json,
    parse_policy,
)
from policies.layer import parse_layer
from policies.source import make_policy, seal_policy

TEXT = """\
name: full
tools: [shell, read_file]
sandbox:
  network: {mode: open}
  mounts: [{source: /srv/a, target: /a, mode: rw}]
  env: {pass: [LANG], set: {B: "2", A: "1"}}
  limits: {cpus: 0.125, memory_mib: 77}
  disk: watched
commands:
  - {id: c, match: {tool: [shell], paths: ["a/**"]}, then: deny, because: words}
changes:
  - {id: d, match: {paths: [b], kinds: [mode], with_ignored: false}, then: allow}
default: {changes: deny}
"""


def make_full_policy() -> Policy:
    return make_policy(parse_layer(TEXT, file="p.yaml").document, name="")


def read_source(policy: Policy) -> dict[str, Json]:
    return dict(json.loads(canonical_json(policy.source)))


def test_a_policy_is_made_again_from_its_source() -> None:
    policy = make_full_policy()

    assert parse_policy(policy.source) == policy
    assert parse_policy(read_source(policy)) == policy


def test_the_digest_is_that_of_the_source() -> None:
    policy = make_full_policy()

    assert policy.digest == digest_json(policy.source)


def test_a_source_holds_cpus_in_thousandths() -> None:
    assert b'"cpu_thousandths":125' in canonical_json(make_full_policy().source)


def test_the_order_in_which_variables_are_written_does_not_matter() -> None:
    swapped = TEXT.replace('{B: "2", A: "1"}', '{A: "1", B: "2"}')

    other = make_policy(parse_layer(swapped, file="p.yaml").document, name="")

    assert other == make_full_policy()


@pytest.mark.parametrize(
    "source",
    [
        None,
        "text",
        {},
        [],
        {"version": 1},
        {"sandbox": {"limits": None}},
        {**read_source(make_full_policy()), "tools": None},
        {**read_source(make_full_policy()), "version": 2},
        {**read_source(make_full_policy()), "more": 1},
        {key: value for key, value in read_source(make_full_policy()).items() if key != "tools"},
    ],
)
def test_what_is_not_a_whole_source_is_refused(source: Json) -> None:
    with pytest.raises(PolicyError):
        parse_policy(source)


def test_a_source_that_asks_for_what_is_not_enforced_is_refused() -> None:
    policy = make_full_policy()
    network = Network(mode=NetworkMode.ALLOWLIST, hosts=("example.org",))
    later = seal_policy(replace(policy, sandbox=replace(policy.sandbox, network=network)))

    with pytest.raises(PolicyRefusedError, match="allowlist"):
        parse_policy(later.source)
