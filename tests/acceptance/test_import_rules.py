"""Each forbidden import, planted in a copy of the packages, is caught by its contract."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LINT = Path(sys.executable).with_name("lint-imports")

PLANTED = [
    ("policies/changes.py", "import sandbox", "runner, sandbox, policies"),
    ("policies/changes.py", "from runner.domain import ids", "runner, sandbox, policies"),
    ("sandbox/snapshot.py", "import runner", "runner, sandbox, policies"),
    ("sandbox/snapshot.py", "from sandbox.docker import images", "inside sandbox"),
    ("sandbox/errors.py", "from sandbox import snapshot", "inside sandbox"),
    ("sandbox/git/__init__.py", "from sandbox.docker import images", "inside sandbox"),
    ("runner/errors.py", "from runner.domain import ids", "inside runner"),
    ("runner/domain/ids.py", "from runner import application", "inside runner"),
    ("runner/application/__init__.py", "from runner import adapters", "inside runner"),
    ("runner/adapters/__init__.py", "from runner import bootstrap", "inside runner"),
    ("runner/bootstrap.py", "from runner import entrypoints", "inside runner"),
    (
        "runner/entrypoints/__init__.py",
        "from runner import adapters",
        "only bootstrap names adapters",
    ),
    (
        "runner/application/__init__.py",
        "from sandbox.snapshot import Snapshot",
        "runner uses sandbox through its package",
    ),
    (
        "runner/entrypoints/__init__.py",
        "from sandbox.docker import images",
        "runner uses sandbox through its package",
    ),
    (
        "runner/adapters/__init__.py",
        "from sandbox.git import repositories",
        "runner uses sandbox through its package",
    ),
    (
        "runner/bootstrap.py",
        "from sandbox.errors import SandboxError",
        "runner uses sandbox through its package",
    ),
    (
        "runner/application/__init__.py",
        "from policies.policy import Policy",
        "policies are used through their package",
    ),
    (
        "sandbox/snapshot.py",
        "from policies.changes import Changes",
        "policies are used through their package",
    ),
    ("sandbox/snapshot.py", "import docker", "docker only in sandbox.docker"),
    ("runner/bootstrap.py", "from docker import errors", "docker only in sandbox.docker"),
    ("sandbox/docker/images.py", "import git", "GitPython only in sandbox.git"),
    ("runner/adapters/__init__.py", "from git import Repo", "GitPython only in sandbox.git"),
    ("runner/application/__init__.py", "import sqlalchemy", "SQLAlchemy only in its adapter"),
    ("runner/entrypoints/__init__.py", "import alembic", "SQLAlchemy only in its adapter"),
    ("runner/application/__init__.py", "import httpx", "httpx only in model adapters"),
    ("runner/adapters/sql/__init__.py", "import httpx", "httpx only in model adapters"),
    ("runner/application/__init__.py", "import celery", "Celery only in its adapter"),
    ("runner/adapters/sql/__init__.py", "import redis", "Celery only in its adapter"),
]


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    folder = tmp_path_factory.mktemp("packages")
    for package in ("policies", "sandbox", "runner"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / package, folder / package, ignore=ignored)
    shutil.copy(ROOT / "pyproject.toml", folder)
    return folder


def lint(folder):
    return subprocess.run(
        [LINT, "--no-cache"], cwd=folder, capture_output=True, text=True, check=False
    )


@pytest.mark.slow
def test_the_packages_as_they_are_break_no_contract(copy):
    done = lint(copy)

    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(("module", "line", "contract"), PLANTED)
def test_a_forbidden_import_is_caught_by_its_contract(copy, module, line, contract):
    path = copy / module
    before = path.read_text()
    path.write_text(f"{before}\n{line}\n")

    done = lint(copy)
    path.write_text(before)

    assert done.returncode == 1
    assert f"{contract} BROKEN" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("module", ["runner/planted.py", "sandbox/planted.py"])
def test_a_module_without_a_layer_is_an_error(copy, module):
    (copy / module).write_text('"""Planted."""\n')

    done = lint(copy)
    (copy / module).unlink()

    assert done.returncode == 1
    assert "planted" in done.stdout
