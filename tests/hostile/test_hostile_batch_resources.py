"""What all tasks share, used up by a real task (CASES.md: 12, 13, 15, 17-19, 21).

`ended` has checked the host, the sibling and the stored outcome before each test looks at a call.
"""

from __future__ import annotations

import pytest
from hostile_builders import SIBLING

pytestmark = [pytest.mark.engine, pytest.mark.slow]

TASK = "resources"


def test_case_12_a_fork_bomb_meets_its_limit_and_the_sibling_keeps_answering(ended, yard):
    assert ended.calls["12 bomb"].reason == "resource_limit"
    assert "processes still running then were killed" in ended.calls["12 shell bomb"].text
    stubborn = ended.calls["12 stubborn bomb"]
    assert stubborn.reason == "timed_out"
    assert "forks refused by the limit on processes" in stubborn.text
    assert ended.calls["12 after"].text == "exit code 0\nstdout:\nforks\n"
    answers = [one.text for label, one in yard.ended[SIBLING].calls.items() if "answer" in label]
    assert set(answers) == {"exit code 0\nstdout:\nanswered\n"}


@pytest.mark.parametrize("label", ["allocate", "child", "memfd", "shared memory"])
def test_case_13_memory_that_ran_out_is_told_and_no_success(ended, label):
    assert ended.calls[f"13 {label}"].reason == "out_of_memory"


def test_case_13_file_systems_in_memory_are_small_and_nothing_is_left_to_the_next_call(ended):
    sizes = ended.calls["13 tmpfs"].text.split("stdout:\n")[1].split("\nstderr:")[0].split()

    assert int(sizes[0]) <= 16 << 20
    assert ended.calls["13 after"].text == "exit code 0\nstdout:\n0\nmemory\n"


def test_case_15_what_hides_from_its_call_is_dead_after_it(ended):
    detached, stopped = ended.calls["15 detached"], ended.calls["15 at the limit"]

    assert "1 processes still running then were killed" in detached.text
    assert stopped.reason == "timed_out"
    assert stopped.execution.wall_milliseconds < 5000  # its limit is 1000; no wait for a pipe
    assert ended.calls["15 after"].text == "exit code 0\nstdout:\ndead\n"


@pytest.mark.parametrize("label", ["full", "names", "deep"])
def test_case_17_a_full_volume_is_told_and_the_task_can_clear_it(ended, label):
    cleared = {"full": "empty", "names": "no names", "deep": "not deep"}[label]

    # blocks or names: which of them is told apart elsewhere
    assert ended.calls[f"17 {label}"].reason in {"disk_full", "inodes_full"}
    assert ended.calls[f"17 {cleared}"].text == "exit code 0\nstdout:\nfreed\n"


def test_case_17_a_size_beyond_all_bounds_and_any_attribute_are_errors_inside(ended):
    assert "File too large" in ended.calls["17 huge"].text
    assert "Operation not supported" in ended.calls["17 attributes"].text


def test_case_18_a_storm_of_writes_and_syncs_ends_with_its_call(ended):
    called = ended.calls["18 sync storm"]

    assert called.text.startswith("exit code 0; ")
    assert "processes still running then were killed" in called.text


def test_case_19_a_call_that_spins_on_all_threads_ends_at_its_limit(ended):
    called = ended.calls["19 spin"]

    assert called.reason == "timed_out"
    assert called.execution.wall_milliseconds < 5000  # its limit is 2000


def test_case_21_arguments_and_environment_without_measure_are_refused_before_the_start(ended):
    for label in ("21 long argument", "21 NUL"):
        assert ended.calls[label].reason == "bad_arguments"
        assert ended.calls[label].execution is None
    assert "Argument list too long" in ended.calls["21 environment"].text
    assert ended.calls["last"].text == "exit code 0\nstdout:\nlast\n"
