from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from policies import PolicyFileError
from runner.adapters.batch_file import load_batch_file
from runner.domain.outcome import Outcome
from runner.domain.script import parse_script
from runner.domain.task import BatchSpec, ConstraintSpec
from runner.errors import BatchFileError

GOOD = """\
version: 1
name: repairs
budget: {cost_usd: 40, tasks_parallel: 8, deadline_minutes: 600}
retries: {infrastructure_error: 2}
defaults:
  image: python
  policy: repair
  agent: {kind: scripted, script: fix.json}
  budget: {wall_seconds: 100, cost_usd: 2.5}
  verify: {argv: [python, -m, pytest], restore: ["tests/**"], timeout_seconds: 300}
  constraints:
    - {text: Be careful}
tasks:
  - id: one
    repo: {path: ./code}
    goal: Make it pass.
  - id: two
    repo: {path: ./code, ref: v1, history: shallow}
    goal: Other.
    budget: {wall_seconds: 5}
    verify: {argv: ["true"]}
    constraints:
      - {text: Keep tests, protect: ["tests/**"], forbid: delete}
    expect: [not_verified, prevented]
"""
SCRIPT = '{"replies": [{"text": "hi", "calls": [{"tool": "finish", "arguments": {"n": null}}]}]}'

Load = Callable[[str], BatchSpec]


@dataclass
class FixedPolicies:
    """Knows one policy; keeps what it was asked."""

    asked: list[tuple[str, str, tuple[ConstraintSpec, ...]]] = field(default_factory=list)

    def merge(
        self, name_or_path: str, *, repository: str, constraints: tuple[ConstraintSpec, ...]
    ) -> str:
        self.asked.append((name_or_path, repository, constraints))
        if name_or_path != "repair":
            raise PolicyFileError(name_or_path, 3, "tools", "no such tool")
        return json.dumps({"policy": name_or_path, "rules": len(constraints)})


@pytest.fixture
def policies() -> FixedPolicies:
    return FixedPolicies()


@pytest.fixture
def load(tmp_path: Path, policies: FixedPolicies) -> Load:
    (tmp_path / "code").mkdir()
    (tmp_path / "fix.json").write_text(SCRIPT)

    def load_text(text: str) -> BatchSpec:
        (tmp_path / "batch.yaml").write_text(text)
        return load_batch_file(tmp_path / "batch.yaml", policies=policies)

    return load_text


def problems(load: Load, text: str) -> list[str]:
    with pytest.raises(BatchFileError) as caught:
        load(text)
    return [
        f"{one.line}: {one.field}: {one.problem}" for one in (caught.value, *caught.value.others)
    ]


def test_paths_become_absolute_from_the_files_own_folder(load: Load, tmp_path: Path) -> None:
    spec = load(GOOD)

    assert spec.file == str(tmp_path / "batch.yaml")
    assert spec.tasks[0].repo.location == str(tmp_path / "code")
    assert spec.tasks[0].repo.kind == "path"


def test_dollars_become_micro_dollars_without_a_float(load: Load) -> None:
    spec = load(GOOD)

    assert spec.budget.cost_micro_usd == 40_000_000
    assert spec.tasks[0].budget.cost_micro_usd == 2_500_000


def test_a_script_file_is_embedded_as_canonical_json(load: Load) -> None:
    script = load(GOOD).tasks[0].agent.script

    assert json.loads(script) == json.loads(SCRIPT)
    assert script == parse_script(SCRIPT).canonical_text


def test_an_inline_script_is_embedded_as_the_file_says_it(load: Load) -> None:
    inline = "{replies: [{calls: [{tool: shell, arguments: {command: ls, deep: [1, true]}}]}]}"
    spec = load(GOOD.replace("fix.json", inline))

    call = parse_script(spec.tasks[0].agent.script).replies[0].calls[0]
    assert call.arguments == {"command": "ls", "deep": [1, True]}


def test_budget_and_verify_are_merged_key_by_key(load: Load) -> None:
    task = load(GOOD).tasks[1]

    assert (task.budget.wall_seconds, task.budget.cost_micro_usd) == (5, 2_500_000)
    assert task.verify is not None
    assert (task.verify.argv, task.verify.restore) == (("true",), ("tests/**",))


def test_constraints_add_up_with_the_defaults_first(load: Load) -> None:
    assert [one.text for one in load(GOOD).tasks[1].constraints] == ["Be careful", "Keep tests"]


def test_the_policy_is_merged_with_repository_and_constraints(
    load: Load, policies: FixedPolicies, tmp_path: Path
) -> None:
    spec = load(GOOD)

    assert json.loads(spec.tasks[1].policy) == {"policy": "repair", "rules": 2}
    assert [one[1] for one in policies.asked] == [str(tmp_path / "code")] * 2


def test_a_policy_file_is_found_beside_the_batch_file(
    load: Load, policies: FixedPolicies, tmp_path: Path
) -> None:
    with pytest.raises(BatchFileError):
        load(GOOD.replace("policy: repair", "policy: ./mine.yaml"))

    assert policies.asked[0][0] == str(tmp_path / "mine.yaml")


def test_expect_is_verified_unless_said_otherwise(load: Load) -> None:
    spec = load(GOOD)

    assert spec.tasks[0].expect == (Outcome.VERIFIED,)
    assert spec.tasks[1].expect == (Outcome.NOT_VERIFIED, Outcome.PREVENTED)


def test_a_task_that_names_a_location_drops_the_defaults_location(load: Load) -> None:
    text = GOOD.replace("defaults:\n", "defaults:\n  repo: {path: ./code, ref: main}\n")
    text = text.replace("repo: {path: ./code}", "repo: {url: 'https://example.org/x.git'}")

    repo = load(text).tasks[0].repo

    assert (repo.kind, repo.location, repo.ref) == ("url", "https://example.org/x.git", "main")


def test_an_image_may_be_built_from_a_folder(load: Load, tmp_path: Path) -> None:
    (tmp_path / "code" / "Dockerfile").write_text("FROM x\n")

    spec = load(GOOD.replace("image: python", "image: {build: ./code}"))

    assert spec.tasks[0].image == f"build:{tmp_path / 'code'}"


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("version: 1", "version: 2", "1: version: this release reads version 1"),
        ("name: repairs", "name: ../x", "2: name: becomes a folder's name"),
        ("name: repairs", "name: 7", "2: name: must be text; put it in quotes"),
        ("cost_usd: 40", "cost_usd: '40'", "3: budget.cost_usd: must be an amount"),
        ("cost_usd: 40", "cost_usd: 0", "3: budget.cost_usd: must be above 0; leave the key out"),
        ("cost_usd: 40", "cost_usd: 0.0000001", "3: budget.cost_usd: has more than six decimal"),
        ("tasks_parallel: 8", "tasks_parallel: 0", "3: budget.tasks_parallel: input should be"),
        ("tasks_parallel: 8", "task_parallel: 8", "3: budget.task_parallel: unknown key; did you"),
        ("infrastructure_error: 2", "verified: 1", "4: retries.verified: must be one of"),
        (
            "wall_seconds: 100",
            "wall_seconds: 1.5",
            "9: defaults.budget.wall_seconds: must be a wh",
        ),
        ("wall_seconds: 100", "wall_minutes: 1", "9: defaults.budget.wall_minutes: unknown key"),
        ("wall_seconds: 100", "wall_seconds: 5s", "9: defaults.budget.wall_seconds: must be a wh"),
        ("argv: [python, -m, pytest]", "argv: pytest", "10: defaults.verify.argv: must be a list"),
        (
            "timeout_seconds: 300",
            "timeout: 3",
            "10: defaults.verify.timeout: unknown key; did you",
        ),
        ("policy: repair", "policy:", "7: defaults.policy: has no value; give one or leave"),
        ("kind: scripted", "kind: magic", "8: defaults.agent: kind must be scripted, model or"),
        (
            "kind: scripted, ",
            "kind: scripted, x: 1, ",
            "8: defaults.agent.x: unknown key; known h",
        ),
        ("kind: scripted, ", "", "8: defaults.agent: kind must be scripted, model or command"),
        ("script: fix.json", "script: none.json", "8: defaults.agent.script: no file"),
        ("policy: repair", "policy: other", "7: defaults.policy: other:3: tools: no such tool"),
        ("  policy: repair\n", "", "13: tasks[0].policy: missing; give it here or under def"),
        ("  image: python\n", "", "13: tasks[0].image: missing; give it here or under def"),
        ("image: python", "image: [a]", "6: defaults.image: must be an image name or {build"),
        ("image: python", "image: {build: ./code}", "6: defaults.image.build: no Dockerfile in"),
        ("    goal: Make it pass.\n", "", "14: tasks[0].goal: missing; it must be given here"),
        ("goal: Make it pass.", "goal: ' '", "16: tasks[0].goal: must not be empty"),
        ("id: one", "id: two", "17: tasks[1].id: 'two' is also the id of the task on line 14"),
        ("id: one", "id: report.html", "14: tasks[0].id: 'report.html' is a name that results"),
        ("id: one", "id: -x", "14: tasks[0].id: becomes a folder's name"),
        ("path: ./code}", "path: ./nowhere}", "15: tasks[0].repo.path: no directory"),
        ("path: ./code}", "archive: a.tar}", "15: tasks[0].repo.archive: no file"),
        ("path: ./code}", "path: ./code, url: x}", "15: tasks[0].repo: give exactly one of"),
        ("path: ./code}", "url: 'https://u:p@h/x'}", "15: tasks[0].repo.url: holds credentials"),
        ("ref: v1", "ref: --upload-pack=x", "18: tasks[1].repo.ref: must be a branch, tag"),
        ("ref: v1", "ref: 123", "18: tasks[1].repo.ref: must be text; put it in quotes"),
        ("history: shallow", "history: deep", "18: tasks[1].repo.history: must be one of 'full'"),
        ("forbid: delete", "forbid: all", "23: tasks[1].constraints[0].forbid: must be one of"),
        ('protect: ["tests/**"]', 'protect: ["a**"]', "22: tasks[1].constraints: "),
        ('restore: ["tests/**"]', 'restore: ["a**"]', "10: defaults.verify.restore: "),
        ("[not_verified, prevented]", "[]", "24: tasks[1].expect: must not be an empty list"),
        ("[not_verified, prevented]", "[done]", "24: tasks[1].expect[0]: must be one of"),
        ("[not_verified, prevented]", "verified", "24: tasks[1].expect: must be a list"),
        (
            "path: ./code}",
            "url: 'https://example.org/a', include: [untracked]}",
            "15: tasks[0].repo.include: is for a path",
        ),
        (
            "path: ./code}",
            "path: ./code, include: ['a**']}",
            "15: tasks[0].repo.include: ",
        ),
        ("version: 1", "version: 1\nversion: 1", "2: version: written twice, first on line 1"),
        ("tasks:", "tasks: []\nother:", "14: other: unknown key"),
    ],
)
def test_a_mistake_is_named_with_line_field_and_way_out(
    load: Load, old: str, new: str, problem: str
) -> None:
    assert old in GOOD

    found = problems(load, GOOD.replace(old, new, 1))

    assert any(one.startswith(problem) for one in found), found


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        (
            "kind: scripted, script: fix.json",
            "kind: model, provider: a, model: b",
            "defaults.agent.kind",
        ),
        ("kind: scripted, script: fix.json", "kind: command, argv: [a]", "defaults.agent.kind"),
        ("    goal: Other.\n", "    goal: Other.\n    race: {count: 4}\n", "tasks[1].race"),
    ],
)
def test_what_comes_later_is_refused_by_name(load: Load, old: str, new: str, field: str) -> None:
    found = problems(load, GOOD.replace(old, new, 1))

    assert any(field in one and "is not in this release" in one for one in found), found


def test_files_that_no_commit_holds_are_named_by_the_repository(load: Load) -> None:
    words = "path: ./code, include: [uncommitted, untracked, .env]}"

    batch = load(GOOD.replace("path: ./code}", words, 1))

    assert batch.tasks[0].repo.include == ("uncommitted", "untracked", ".env")


def test_all_problems_of_a_file_are_told_at_once_in_order(load: Load) -> None:
    text = GOOD.replace("version: 1", "version: 9").replace("goal: Other.", "gaol: Other.")

    found = problems(load, text)

    assert [one.split(":")[0] for one in found] == ["1", "17", "19"]


def test_a_wrong_default_is_told_once_for_all_tasks(load: Load) -> None:
    assert len(problems(load, GOOD.replace("policy: repair", "policy: other"))) == 1


def test_a_problem_in_a_script_names_the_scripts_line(load: Load, tmp_path: Path) -> None:
    (tmp_path / "fix.yaml").write_text("replies:\n  - text: a\n    cals: []\n")

    with pytest.raises(BatchFileError) as caught:
        load(GOOD.replace("fix.json", "fix.yaml"))

    assert (caught.value.file, caught.value.line) == (str(tmp_path / "fix.yaml"), 3)
    assert caught.value.field == "replies[0].cals"


def test_a_task_without_a_check_must_expect_something_else_than_verified(load: Load) -> None:
    text = GOOD.replace(
        '  verify: {argv: [python, -m, pytest], restore: ["tests/**"], timeout_', "  #"
    )

    assert problems(load, text)[0].startswith("14: tasks[0].verify: missing")


def test_a_batch_file_that_is_not_there_is_named(tmp_path: Path, policies: FixedPolicies) -> None:
    with pytest.raises(BatchFileError, match=r"none\.yaml:1: file: cannot be read"):
        load_batch_file(tmp_path / "none.yaml", policies=policies)


def test_bytes_that_are_no_text_are_named_with_their_line(
    tmp_path: Path, policies: FixedPolicies
) -> None:
    (tmp_path / "b.yaml").write_bytes(b"version: 1\nname: \xff\n")

    with pytest.raises(BatchFileError, match=r"b\.yaml:2: file: not UTF-8"):
        load_batch_file(tmp_path / "b.yaml", policies=policies)
