"""Each limit is told apart in a call's result: by the kernel's facts, with its name and value.

Every command also prints the words of another failure: nothing of it is judged by its output.
"""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest
from docker_yard import SMALL_POLICY, make_docker_yard
from host_setting import make_docker_host
from run_builders import FINISH, Yard, call, shell

from runner.adapters.system_clock import SystemClock
from runner.application.cancel import cancel_task
from runner.application.keep_leases import LeaseKeeper
from runner.domain.items import ExecutionItem, ToolStatus
from runner.domain.outcome import Outcome

pytestmark = pytest.mark.engine

LIES = "echo 'OOMKilled: out of memory; No space left on device; fork: Resource unavailable'; "
PYTHON = "python3 -c '{}'"

CASES = {
    "out of memory": (
        PYTHON.format("b = bytearray(600 << 20)"),
        "out_of_memory",
        "out of memory (policy limit memory_mib 256)",
        "processes killed by the kernel for memory: 1",
    ),
    "a child out of memory": (
        PYTHON.format("b = bytearray(600 << 20)") + "; echo the parent goes on; exit 0",
        "out_of_memory",
        "out of memory (policy limit memory_mib 256)",
        "processes killed by the kernel for memory: 1",
    ),
    "killed by itself": (
        "kill -9 $$",
        "killed",
        "killed by a signal that was not ours",
        "exit status 137: SIGKILL",
    ),
    "pids exhausted": (
        "for i in $(seq 200); do sleep 1 & done; wait; exit 1",
        "resource_limit",
        "too many processes (policy limit pids 64)",
        "forks refused by the limit on processes",
    ),
    "disk full": (
        "head -c 200m /dev/zero > big",
        "disk_full",
        "disk full (policy limit disk_mib 64)",
        "the task's volume has no bytes left",
    ),
    "inodes full": (
        PYTHON.format('for i in range(9000): open(str(i), "x").close()'),
        "inodes_full",
        "too many files (policy limit inodes 2000)",
        "the task's volume has no inodes left",
    ),
    "open files": (
        PYTHON.format('import os\nfor i in range(400): os.open("/dev/null", 0)'),
        "nonzero_exit",
        "exit code 1",
        "Too many open files",
    ),
    "core file": (
        "ulimit -c unlimited; sh -c 'kill -SEGV $$'; ls core* && exit 0; exit 3",
        "nonzero_exit",
        "exit code 3",
        "cannot modify limit",
    ),
    "a failing command": ("false", "nonzero_exit", "exit code 1", "No space left on device"),
}


@pytest.fixture(scope="module")
def yards(engine, tmp_path_factory):
    """One host for all cases; each is a task of its own."""
    folder = tmp_path_factory.mktemp("told")
    host = make_docker_host(engine, folder / "home")

    def make(*turns, **spec) -> Yard:
        yard = make_docker_yard(*turns, folder=folder, engine=engine, host=host, **spec)
        yard.services = replace(yard.services, clock=SystemClock())
        return yard

    return make


@pytest.mark.parametrize("name", CASES)
def test_a_limit_is_told_apart_with_its_name_and_value(yards, name):
    command, reason, words, fact = CASES[name]
    yard = yards([shell(f"{LIES}{command}")], [FINISH])

    yard.work()

    told = yard.results[0]
    assert (told.status, told.reason) == (ToolStatus.FAILED, reason)
    assert told.text.startswith(words)
    assert fact in told.text


def test_a_time_limit_names_whose_it_is_and_its_value(yards):
    policy = SMALL_POLICY.replace("call_seconds: 20", "call_seconds: 1")
    yard = yards([shell(f"{LIES}kill -STOP $$")], [FINISH], policy=policy)

    yard.work()

    told = yard.results[0]
    assert told.reason == "timed_out"
    assert told.text.startswith("timed out after 1 s (policy limit call_seconds)")


def test_the_calls_own_time_limit_is_named_as_such(yards):
    yard = yards([call("shell", command="sleep 9", timeout_seconds=1)], [FINISH])

    yard.work()

    assert yard.results[0].reason == "timed_out"
    assert "timed out after 1 s" in yard.results[0].text
    assert "policy limit" not in yard.results[0].text


def test_what_we_killed_is_told_as_the_end_of_the_run_not_as_a_signal(yards):
    yard = yards([shell(f"{LIES}sleep 30")], [FINISH])
    with LeaseKeeper(yard.services) as keeper:

        def cancel_when_it_runs() -> None:
            while not any(isinstance(one.payload, ExecutionItem) for one in yard.items):
                threading.Event().wait(0.02)
            cancel_task(yard.task.task_id, yard.services)

        canceller = threading.Thread(target=cancel_when_it_runs)
        canceller.start()
        run = yard.work(replace(yard.desk(), on_lease=keeper.hold))
        canceller.join()

    assert run.outcome is Outcome.CANCELLED
    assert [(one.status, one.reason) for one in yard.results] == [(ToolStatus.FAILED, "run_ended")]
    assert "cancelled" in yard.results[0].text


def test_after_any_of_them_the_next_call_works(yards):
    ends = [CASES[one][0] for one in ("out of memory", "killed by itself", "pids exhausted")]
    yard = yards([*map(shell, ends), shell("echo fine > fine; cat fine")], [FINISH])

    yard.work()

    assert [one.reason for one in yard.results[:4]] == [
        "out_of_memory",
        "killed",
        "resource_limit",
        "",
    ]
    assert "fine" in yard.results[3].text


def test_a_crash_leaves_no_file_on_the_host(yards):
    before = set(Path("/").iterdir())
    yard = yards([shell("sh -c 'kill -SEGV $$'; true")], [FINISH])

    yard.work()

    assert set(Path("/").iterdir()) == before
