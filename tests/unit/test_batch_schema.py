from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
import yaml

from runner.adapters import batch_file
from runner.adapters.batch_file import make_batch_schema

CHECKED_IN = Path(batch_file.__file__).parent / "batch.schema.json"

DESIGN_EXAMPLE = """\
version: 1
name: repairs
budget: {cost_usd: 40, tasks_parallel: 8, model_calls_parallel: 6, deadline_minutes: 600}
retries: {infrastructure_error: 2, sandbox_lost: 1}
defaults:
  image: python
  policy: repair
  agent: {kind: model, provider: anthropic, model: some-model}
  budget: {wall_seconds: 1800, model_calls: 60, tokens: 400000, cost_usd: 2.5,
           tool_seconds: 900, output_mib: 64}
  setup: {argv: [pip, install, --user, -e, ".[test]"], network: open, timeout_seconds: 600}
  verify: {argv: [python, -P, -m, pytest, -q], env: {},
           restore: ["tests/**", "**/conftest.py", pytest.ini, tox.ini, setup.cfg],
           forbid_new: [pytest.py, sitecustomize.py], timeout_seconds: 300, runs: 1}
tasks:
  - id: grouping-not-in
    repo: {path: ./sqlparse, ref: HEAD, history: shallow, trusted: false}
    goal: Make tests/test_grouping.py pass.
    constraints:
      - {text: Do not change the tests, protect: ["tests/**"]}
      - {text: Do not delete files, forbid: delete}
    expect: [verified]
"""


@pytest.fixture(scope="module")
def validator() -> jsonschema.Draft202012Validator:
    schema = json.loads(make_batch_schema())
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def test_the_checked_in_schema_is_the_generated_one() -> None:
    assert CHECKED_IN.read_text() == make_batch_schema()


def test_the_schema_takes_the_designs_example(validator: jsonschema.Draft202012Validator) -> None:
    assert list(validator.iter_errors(yaml.safe_load(DESIGN_EXAMPLE))) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("version: 1", "version: 2"),
        ("name: repairs", "name: a/b"),
        ("cost_usd: 40", "cost_usd: 0"),
        ("tasks_parallel: 8", "tasks_paralel: 8"),
        ("sandbox_lost: 1", "verified: 1"),
        ("kind: model", "kind: magic"),
        ("image: python", "image:"),
        ("history: shallow", "history: deep"),
        ("forbid: delete", "forbid: create"),
        ("expect: [verified]", "expect: [fine]"),
        ("goal: Make tests/test_grouping.py pass.", "goal: ''"),
        ("wall_seconds: 1800", "wall_seconds: soon"),
    ],
)
def test_the_schema_refuses(
    validator: jsonschema.Draft202012Validator, old: str, new: str
) -> None:
    assert old in DESIGN_EXAMPLE

    assert not validator.is_valid(yaml.safe_load(DESIGN_EXAMPLE.replace(old, new)))
