"""What a batch file may say of `setup`, and what the policy allows it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from runner.adapters.batch_file import FilePolicies, load_batch_file
from runner.domain.task import BatchSpec, SetupSpec
from runner.errors import BatchFileError

GOOD = """\
version: 1
name: repairs
defaults:
  repo: {path: .}
  image: python
  policy: repair
  agent: {kind: scripted, script: {replies: [{text: hi}]}}
  verify: {argv: ["true"]}
  setup:
    argv: [pip, install, --user, -e, .]
    network: open
    env: {PIP_NO_INDEX: "1"}
    timeout_seconds: 60
tasks:
  - id: one
    goal: Make it pass.
  - id: two
    goal: Other.
    setup: {argv: [make]}
"""
CLOSED = "version: 1\nname: closed\nsandbox: {setup_network: [none]}\n"

Load = Callable[[str], BatchSpec]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    (tmp_path / "closed.yaml").write_text(CLOSED)

    def load_text(text: str) -> BatchSpec:
        (tmp_path / "batch.yaml").write_text(text)
        return load_batch_file(tmp_path / "batch.yaml", policies=FilePolicies(folder=tmp_path))

    return load_text


def problems(load: Load, text: str) -> list[str]:
    with pytest.raises(BatchFileError) as caught:
        load(text)
    return [
        f"{one.line}: {one.field}: {one.problem}" for one in (caught.value, *caught.value.others)
    ]


def test_the_defaults_setup_is_every_tasks_that_names_none(load: Load) -> None:
    one, _ = load(GOOD).tasks

    assert one.setup == SetupSpec(
        argv=("pip", "install", "--user", "-e", "."),
        network="open",
        env={"PIP_NO_INDEX": "1"},
        timeout_seconds=60,
    )


def test_a_tasks_own_setup_replaces_the_defaults_whole(load: Load) -> None:
    _, two = load(GOOD).tasks

    assert two.setup == SetupSpec(argv=("make",), network="none", timeout_seconds=600)


def test_without_setup_there_is_none(load: Load) -> None:
    text = GOOD[: GOOD.index("  setup:")] + "tasks: [{id: one, goal: x}]\n"

    assert load(text).tasks[0].setup is None


@pytest.mark.parametrize(
    ("old", "new", "where"),
    [
        ("policy: repair", "policy: ./closed.yaml", "11: defaults.setup.network"),
        ("network: open", "network: allowlist", "11: defaults.setup.network"),
        ("network: open", "network: host", "11: defaults.setup.network"),
        ("argv: [pip, install, --user, -e, .]", "argv: []", "10: defaults.setup.argv"),
        ("timeout_seconds: 60", "timeout_seconds: 0", "13: defaults.setup.timeout_seconds"),
        ('PIP_NO_INDEX: "1"', '"A=B": "1"', "12: defaults.setup.env"),
        ("{argv: [make]}", "{network: none}", "19: tasks[1].setup.argv"),
    ],
)
def test_a_setup_that_cannot_be_is_refused_at_its_place(
    load: Load, old: str, new: str, where: str
) -> None:
    found = problems(load, GOOD.replace(old, new))

    assert any(one.startswith(where) for one in found), found


def test_a_network_that_the_policy_denies_is_refused_with_what_it_allows(load: Load) -> None:
    (found,) = problems(load, GOOD.replace("policy: repair", "policy: ./closed.yaml"))

    assert "sandbox.setup_network" in found
    assert "closed" in found


def test_no_network_needs_no_permission(load: Load) -> None:
    text = GOOD.replace("network: open", "network: none")

    spec = load(text.replace("policy: repair", "policy: ./closed.yaml"))

    assert spec.tasks[0].setup is not None
