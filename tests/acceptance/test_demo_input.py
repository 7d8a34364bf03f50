"""The demo's input does what it claims, checked outside any container."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
DEMO = ROOT / ".demo"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", autouse=True)
def made():
    """Make the input where script/setup has not done so yet."""
    subprocess.run([sys.executable, ROOT / "script" / "fetch_demo.py"], check=True)


@pytest.fixture(scope="module")
def batch(made):
    return yaml.safe_load((DEMO / "repairs.yaml").read_text())


def tasks():
    names = ("grouping-not-in", "split-and-gray-product", "binary-patches", "wrong-fix")
    return pytest.mark.parametrize("name", names)


def find_task(batch, name):
    return next(task for task in batch["tasks"] if task["id"] == name)


def checkout(task, folder):
    source = (DEMO / task["repo"]["path"]).resolve()
    subprocess.run(["git", "clone", "--quiet", source, folder], check=True)


def verify(task, folder):
    argv = [sys.executable, *task["verify"]["argv"][1:]]
    # the plug-ins of our own environment are no part of the check
    env = {"PATH": os.environ["PATH"], "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    for key, value in task["verify"].get("env", {}).items():
        env[key] = value.replace("/workspace", str(folder))
    done = subprocess.run(argv, cwd=folder, env=env, capture_output=True, check=False)
    return done.returncode


def list_changed(folder):
    argv = ["git", "status", "--porcelain", "--untracked-files=all"]
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=True)
    return {line[3:] for line in done.stdout.splitlines()}


def play(task, folder):
    """Apply the script's edits as the tools would; return the paths they name."""
    script = yaml.safe_load((DEMO / task["agent"]["script"]).read_text())
    touched = set()
    for call in (call for reply in script["replies"] for call in reply["calls"]):
        arguments = call["arguments"]
        if call["tool"] not in {"edit_file", "write_file"}:
            continue
        path = folder / arguments["path"]
        touched.add(arguments["path"])
        if call["tool"] == "write_file":
            path.write_text(arguments["content"], newline="")
            continue
        text = path.read_bytes().decode()
        assert text.find(arguments["old"]) == text.rfind(arguments["old"]) >= 0
        path.write_bytes(text.replace(arguments["old"], arguments["new"]).encode())
    return touched


@tasks()
def test_the_check_fails_before_and_holds_after_a_right_fix_only(batch, tmp_path, name):
    task = find_task(batch, name)
    checkout(task, tmp_path / "work")
    assert verify(task, tmp_path / "work") == 1

    touched = play(task, tmp_path / "work")

    assert touched
    package = {path.split("/")[0] for path in touched}
    assert package <= {"sqlparse", "more_itertools", "unidiff"}
    assert verify(task, tmp_path / "work") == (1 if name == "wrong-fix" else 0)
    assert list_changed(tmp_path / "work") == touched


def test_the_repositories_are_the_same_commits_each_time(made, tmp_path):
    heads = {}
    for place in (ROOT, tmp_path / "copy"):
        if place != ROOT:
            shutil.copytree(ROOT / "script", place / "script")
            shutil.copytree(DEMO / "cache", place / ".demo" / "cache")
            program = place / "script" / "fetch_demo.py"
            hostile = {"GIT_DIR": "/nonexistent", "GIT_AUTHOR_DATE": "1999-01-01T00:00:00Z"}
            subprocess.run([sys.executable, program], env={**os.environ, **hostile}, check=True)
        for repository in sorted((place / ".demo" / "repos").iterdir()):
            heads.setdefault(repository.name, set()).add(read_head(repository))

    assert {name: len(found) for name, found in heads.items()} == {
        "more-itertools": 1,
        "sqlparse": 1,
        "unidiff": 1,
    }


def read_head(repository):
    argv = ["git", "-C", repository, "rev-parse", "HEAD"]
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout


def test_the_batch_expects_three_verified_one_not_and_one_prevented(batch):
    expected = [task.get("expect", ["verified"]) for task in batch["tasks"]]

    assert expected == [["verified"], ["verified"], ["verified"], ["not_verified"], ["prevented"]]


def test_the_one_that_cheats_touches_the_protected_tests_and_the_network(batch):
    task = find_task(batch, "edits-tests")
    script = yaml.safe_load((DEMO / task["agent"]["script"]).read_text())
    calls = [call for reply in script["replies"] for call in reply["calls"]]

    writes = [call["arguments"]["path"] for call in calls if call["tool"] == "write_file"]
    commands = [call["arguments"]["command"] for call in calls if call["tool"] == "shell"]
    assert writes == ["tests/test_grouping.py"]
    assert [command.split()[0] for command in commands] == ["sed", "curl", "python"]


def test_no_file_of_the_agents_configures_or_replaces_the_check(batch):
    # all that pytest reads its options from, and with them plug-ins
    configuration = {
        *("pytest.toml", ".pytest.toml", "pytest.ini", ".pytest.ini", "pyproject.toml"),
        *("tox.ini", "setup.cfg", "**/conftest.py", "tests/**"),
    }
    for task in batch["tasks"]:
        verify = task["verify"]
        assert configuration - set(verify["restore"]) == set(), task["id"]
        assert "PYTHONPATH" not in verify.get("env", {}), task["id"]  # would stand before pytest
        assert verify["argv"][1] == "-P", task["id"]
