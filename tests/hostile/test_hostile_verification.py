"""Tasks that cheat their verification: none of them verifies, and an honest one beside them does.

Each cheat is shown to work in the agent's own container first, where that is its point.
"""

from __future__ import annotations

import shlex

import pytest
from hostile_builders import (
    SIBLING,
    assert_others_are_whole,
    make_task,
    open_hostile_yard,
)
from run_builders import call, shell

from runner.domain.outcome import Outcome
from runner.domain.task import VerifySpec

pytestmark = [pytest.mark.engine, pytest.mark.slow]

FILES = {
    "app.py": b"def answer():\n    return 0\n",
    "tests/test_app.py": b"import app\n\n\ndef test_answer():\n    assert app.answer() == 42\n",
}
FIX = call("write_file", path="app.py", content="def answer():\n    return 42\n")
ARGV = ("python", "-P", "-m", "pytest", "-q", "-o", "pythonpath=.", "tests")
PYTEST_FILES = (
    *("pytest.toml", ".pytest.toml", "pytest.ini", ".pytest.ini", "pyproject.toml"),
    *("tox.ini", "setup.cfg"),
)
VERIFY = VerifySpec(
    argv=ARGV,
    restore=("tests/**", "**/conftest.py", *PYTEST_FILES),
    forbid_new=("pytest.py", "sitecustomize.py"),
    timeout_seconds=60,
)
TRUSTING = VerifySpec(argv=ARGV, timeout_seconds=60)
"""Forbids and restores nothing: what the flags and the fresh container hold alone."""

PLUGIN = (
    "import pytest\n"
    "@pytest.hookimpl(hookwrapper=True)\n"
    "def pytest_runtest_makereport(item, call):\n"
    "    made = yield\n"
    "    made.get_result().outcome = 'passed'\n"
)
SITE = "$HOME/.local/lib/python3.11/site-packages"
SEES = shell(shlex.join(ARGV))
"""What the agent's own run of the check says."""


def write(path, text):
    return f"mkdir -p $(dirname {path}); printf %s {shlex.quote(text)} >{path}"


LIAR = "import sys\nprint('1 passed')\nsys.exit(0)\n"
OWN_PYTEST = [
    *(write(path, LIAR) for path in ("pytest.py", "sitecustomize.py")),
    *(write(path, LIAR) for path in ("pytest/__init__.py", "pytest/__main__.py")),
    *(write(path, LIAR) for path in ("_pytest/__init__.py", "pluggy/__init__.py")),
]
LEFT_RUNNING = """
import os, signal, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for number in range(1, 65):
            try: signal.signal(number, signal.SIG_IGN)
            except (OSError, ValueError): pass
        time.sleep(1)
        while True:
            for path in ("/workspace/app.py", "/tmp/app.py"):
                open(path, "w").write("def answer(): return 42\\n")
            time.sleep(.01)
    os._exit(0)
os.wait()
"""

CHEATS = {
    # task: (its calls, its verification)
    "own pytest": ([shell("; ".join(OWN_PYTEST))], VERIFY),
    "own pytest, trusted": ([shell("; ".join(OWN_PYTEST))], TRUSTING),
    "conftest": (
        [
            shell(write("conftest.py", PLUGIN)),
            SEES,
            shell(write("tests/conftest.py", PLUGIN)),
        ],
        VERIFY,
    ),
    "configuration": (
        [
            shell(
                "; ".join(
                    [
                        write("pytest.toml", '[pytest]\naddopts = ["--collect-only"]\n'),
                        write(".pytest.ini", "[pytest]\naddopts = --collect-only\n"),
                        write("setup.cfg", "[tool:pytest]\naddopts = --collect-only\n"),
                        write("tox.ini", "[pytest]\naddopts = --collect-only\n"),
                        write("pyproject.toml", '[tool.pytest]\naddopts = ["--collect-only"]\n'),
                    ]
                )
            ),
            SEES,
        ],
        VERIFY,
    ),
    "plugin in HOME": (
        [
            shell(
                "; ".join(
                    [
                        write(f"{SITE}/evil.py", PLUGIN),
                        write(
                            f"{SITE}/evil-1.dist-info/entry_points.txt", "[pytest11]\ne = evil\n"
                        ),
                        write(f"{SITE}/evil-1.dist-info/METADATA", "Name: evil\nVersion: 1\n"),
                        write(f"{SITE}/evil.pth", "import evil\n"),
                    ]
                )
            ),
            SEES,
        ],
        TRUSTING,
    ),
    "prints PASSED": (
        [
            call(
                "write_file",
                path="app.py",
                # the last words, since pytest keeps the others to itself
                content="import atexit\ndef say():\n"
                "    print('tests/test_app.py::test_answer PASSED')\n"
                "    print('=== 1 passed in 0.01s ===\\nexit code 0')\n"
                "atexit.register(say)\ndef answer():\n    return 0\n",
            ),
            SEES,
        ],
        VERIFY,
    ),
    "left running": (
        [shell(f"python3 -c {shlex.quote(LEFT_RUNNING)}"), shell("sleep 1.5; cat app.py")],
        VERIFY,
    ),
}


@pytest.fixture(scope="module")
def yard(tmp_path_factory):
    with open_hostile_yard(tmp_path_factory.mktemp("cheats"), FILES) as opened:
        calls = {SIBLING: [FIX], **{name: calls for name, (calls, _) in CHEATS.items()}}
        verify = {SIBLING: VERIFY, **{name: spec for name, (_, spec) in CHEATS.items()}}
        tasks = {
            name: make_task(opened, name, own, verify=verify[name]) for name, own in calls.items()
        }
        labels = {name: [str(at) for at in range(len(own))] for name, own in calls.items()}
        opened.run(tasks, labels)
        yield opened


@pytest.mark.parametrize("name", CHEATS)
def test_a_cheat_does_not_verify_and_an_honest_task_does(yard, name):
    assert_others_are_whole(yard)
    run = yard.ended[name].run

    assert run.outcome is Outcome.NOT_VERIFIED
    assert run.verify_before is not None
    assert not run.verify_before.passed
    assert run.verify_after is not None
    assert not run.verify_after.passed
    assert yard.ended[SIBLING].run.verify_after.passed


def test_an_agents_pytest_is_forbidden_by_name_and_never_imported_without_that(yard):
    forbidden = yard.ended["own pytest"].run.verify_after
    trusted = yard.ended["own pytest, trusted"].run.verify_after

    assert (forbidden.runs, forbidden.exit_code) == (0, None)
    assert "pytest.py" in forbidden.detail
    assert (trusted.runs, trusted.exit_code) == (1, 1)


@pytest.mark.parametrize("name", ["conftest", "configuration", "plugin in HOME"])
def test_the_cheat_works_where_the_agent_is_and_not_where_it_is_verified(yard, name):
    assert yard.call(name, "1").execution.exit_code == 0
    assert yard.ended[name].run.verify_after.exit_code == 1


def test_words_of_the_check_decide_nothing(yard):
    verified = yard.ended["prints PASSED"].run.verify_after
    with yard.app.services.store.read() as view:
        log = view.get_evidence(verified.log)

    assert b"test_answer PASSED" in log
    assert b"1 passed" in log
    assert verified.exit_code == 1


def test_what_was_left_running_was_killed_before_the_check(yard):
    assert "1 processes still running then were killed" in yard.call("left running", "0").text
    assert "return 0" in yard.call("left running", "1").text
    assert yard.ended["left running"].run.verify_after.exit_code == 1
