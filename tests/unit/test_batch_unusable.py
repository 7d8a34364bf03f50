"""What no system can do is refused when a batch is loaded: file, line and field, never a crash."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from runner.adapters.batch_file import FilePolicies, load_batch_file
from runner.domain.task import BatchSpec
from runner.errors import BatchFileError

GOOD = """\
version: 1
name: repairs
defaults:
  repo: {path: .}
  image: python
  policy: repair
  agent: {kind: scripted, script: fix.json}
  verify: {argv: ["true"], env: {A: b}}
  setup: {argv: [make], env: {C: d}}
tasks:
  - id: one
    goal: Make it pass.
"""
SCRIPT = '{"replies": [{"text": "", "calls": [{"tool": "finish", "arguments": %s}]}]}'
NUL = r'"a\0b"'
LONG_NAME = "x" * 300
LONG_PATH = "./" + "x/" * 4000
HUGE = "x" * (128 * 1024)

FILLINGS = {"NUL": NUL, "LONG_NAME": LONG_NAME, "LONG_PATH": LONG_PATH, "HUGE": HUGE}
"""Words that stand for values that are too long for the name of a test."""

Load = Callable[[str], BatchSpec]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    (tmp_path / "fix.json").write_text(SCRIPT % "{}")

    def load_text(text: str) -> BatchSpec:
        (tmp_path / "batch.yaml").write_text(text)
        return load_batch_file(tmp_path / "batch.yaml", policies=FilePolicies(folder=tmp_path))

    return load_text


def fill(text: str) -> str:
    for word, value in FILLINGS.items():
        text = text.replace(word, value)
    return text


def problem(load: Load, text: str) -> str:
    with pytest.raises(BatchFileError) as caught:
        load(text)
    lines = str(caught.value).splitlines()
    assert len(lines) == 1, lines
    return lines[0].partition("/batch.yaml:")[2] or lines[0]


def test_the_batch_of_these_tests_is_a_good_one(load: Load) -> None:
    assert load(GOOD).tasks[0].name == "one"


@pytest.mark.parametrize(
    ("old", "new", "start"),
    [
        ("path: .", "path: NUL", "4: defaults.repo.path: is no usable path: it holds a NUL"),
        ("path: .", "path: LONG_NAME", "4: defaults.repo.path: is no usable path: File name"),
        ("path: .", "path: LONG_PATH", "4: defaults.repo.path: is no usable path: File name"),
        ("path: .", "path: ~no-such-user/x", "4: defaults.repo.path: is no usable path: Could"),
        ("path: .", "path: ring", "4: defaults.repo.path: is no usable path: Symlink loop"),
        ("path: .", "archive: NUL", "4: defaults.repo.archive: is no usable path: it holds"),
        ("path: .", "archive: LONG_NAME", "4: defaults.repo.archive: is no usable path: File"),
        ("path: .", "url: NUL", "4: defaults.repo.url: holds a NUL"),
        ("path: .", "url: https://e/LONG_PATH", "4: defaults.repo.url: is longer than 4096"),
        ("path: .", "url: 'http://['", "4: defaults.repo.url: is no URL"),
        ("path: .", "path: ., ref: NUL", "4: defaults.repo.ref: holds a NUL"),
        (
            "image: python",
            "image: {build: NUL}",
            "5: defaults.image.build: is no usable path: it holds",
        ),
        (
            "image: python",
            "image: {build: LONG_NAME}",
            "5: defaults.image.build: is no usable path: File",
        ),
        (
            "policy: repair",
            r'policy: "./a\0b"',
            "6: defaults.policy: is no usable path: it holds a NUL",
        ),
        (
            "policy: repair",
            "policy: ./LONG_NAME",
            "6: defaults.policy: is no usable path: File name",
        ),
        ("fix.json", "NUL", "7: defaults.agent.script: is no usable path: it holds a NUL"),
        ("fix.json", "LONG_NAME", "7: defaults.agent.script: is no usable path: File name"),
    ],
)
def test_a_path_that_no_file_can_have_is_refused_at_its_field(
    load: Load, tmp_path: Path, old: str, new: str, start: str
) -> None:
    (tmp_path / "ring").symlink_to("ring")

    assert problem(load, GOOD.replace(old, fill(new))).startswith(start)


def test_a_url_longer_than_a_file_name_is_a_source_without_a_policy_of_its_own(load: Load) -> None:
    spec = load(GOOD.replace("path: .", f"url: https://example.org/{LONG_NAME}"))

    assert spec.tasks[0].repo.kind == "url"


@pytest.mark.parametrize(
    ("old", "new", "start"),
    [
        ('argv: ["true"]', 'argv: [""]', "8: defaults.verify.argv: must begin with a program's"),
        ('argv: ["true"]', 'argv: [" ", a]', "8: defaults.verify.argv: must begin with a prog"),
        ('argv: ["true"]', "argv: [a, NUL]", "8: defaults.verify.argv[1]: holds a NUL"),
        ('argv: ["true"]', "argv: [a, HUGE]", "8: defaults.verify.argv[1]: is 128 KiB"),
        ("A: b", "A: NUL", "8: defaults.verify.env.A: holds a NUL"),
        ("A: b", "A: HUGE", "8: defaults.verify.env.A: is 128 KiB"),
        ("argv: [make]", 'argv: [""]', "9: defaults.setup.argv: must begin with a program's"),
        ("argv: [make]", "argv: [NUL]", "9: defaults.setup.argv[0]: holds a NUL"),
        ("argv: [make]", "argv: [make, HUGE]", "9: defaults.setup.argv[1]: is 128 KiB"),
        ("C: d", "C: NUL", "9: defaults.setup.env.C: holds a NUL"),
        ("C: d", "C: HUGE", "9: defaults.setup.env.C: is 128 KiB"),
    ],
)
def test_a_command_that_cannot_be_started_is_refused_at_its_place(
    load: Load, old: str, new: str, start: str
) -> None:
    assert problem(load, GOOD.replace(old, fill(new))).startswith(start)


def test_an_empty_argument_and_one_just_short_enough_are_kept(load: Load) -> None:
    verify = load(GOOD.replace('argv: ["true"]', f'argv: [a, "", {HUGE[1:]}]')).tasks[0].verify

    assert verify is not None
    assert verify.argv == ("a", "", HUGE[1:])


@pytest.mark.parametrize("depth", [60, 900, 20_000])
def test_deeply_nested_yaml_is_refused_in_one_line(load: Load, depth: int) -> None:
    found = problem(load, GOOD + "    x: " + "[" * depth + "]" * depth + "\n")

    assert found.startswith("13: ")
    assert "nested more than 50 levels deep" in found


@pytest.mark.parametrize("depth", [60, 900, 100_000])
@pytest.mark.parametrize("name", ["deep.json", "deep.yaml"])
def test_a_script_with_deeply_nested_arguments_is_refused_with_its_file(
    load: Load, tmp_path: Path, depth: int, name: str
) -> None:
    if name == "deep.yaml":
        depth = min(depth, 5000)  # the YAML scanner is slow
    (tmp_path / name).write_text(SCRIPT % ('{"a": ' * depth + "1" + "}" * depth))

    found = problem(load, GOOD.replace("fix.json", name))

    assert f"{name}:1: " in found
    assert "nested more than 50 levels deep" in found


def test_arguments_nested_as_people_write_them_are_kept(load: Load, tmp_path: Path) -> None:
    text = SCRIPT % ('{"a": ' * 30 + "1" + "}" * 30)
    (tmp_path / "fix.json").write_text(text)

    assert json.loads(load(GOOD).tasks[0].agent.script) == json.loads(text)


@pytest.mark.parametrize("name", ["many.json", "many.yaml"])
def test_a_number_of_thousands_of_digits_is_refused(load: Load, tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(SCRIPT % ('{"a": ' + "1" * 5000 + "}"))

    assert "too many digits" in problem(load, GOOD.replace("fix.json", name))


@pytest.mark.parametrize("amount", ["1e999999", "1e99999999999999999999", "-1"])
def test_an_amount_beyond_all_sums_is_refused(load: Load, amount: str) -> None:
    found = problem(load, GOOD.replace("defaults:", f"budget: {{cost_usd: {amount}}}\ndefaults:"))

    assert found.startswith("3: budget.cost_usd: ")
