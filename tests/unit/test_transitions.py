"""Which state may follow which."""

from __future__ import annotations

import pytest

from runner.domain.outcome import TERMINAL_STATES, RunState
from runner.domain.records import ExecutionState
from runner.domain.transitions import (
    EXECUTION_STATES_AFTER,
    RUN_STATES_AFTER,
    may_execution_become,
    may_run_become,
    require_execution_step,
    require_run_step,
)
from runner.errors import ConflictError


def test_the_tables_name_every_state():
    assert set(RUN_STATES_AFTER) == set(RunState)
    assert set(EXECUTION_STATES_AFTER) == set(ExecutionState)


@pytest.mark.parametrize("state", RunState)
def test_a_run_may_stay_as_it_is(state):
    assert may_run_become(state, state)


@pytest.mark.parametrize("old", TERMINAL_STATES)
@pytest.mark.parametrize("new", RunState)
def test_an_ended_run_becomes_nothing_else(old, new):
    assert may_run_become(old, new) is (old is new)


@pytest.mark.parametrize("old", set(RunState) - TERMINAL_STATES)
@pytest.mark.parametrize("new", [RunState.CANCELLED, RunState.FAILED, RunState.NEEDS_ATTENTION])
def test_a_live_run_can_always_be_stopped(old, new):
    assert may_run_become(old, new)


@pytest.mark.parametrize("old", set(RunState) - {RunState.RUNNING, RunState.COMPLETED})
def test_only_a_running_run_can_be_completed(old):
    with pytest.raises(ConflictError, match=f"r1: {old.value} cannot become completed"):
        require_run_step("r1", old, RunState.COMPLETED)


@pytest.mark.parametrize(
    "old",
    [
        ExecutionState.STARTED,
        ExecutionState.HELD,
        ExecutionState.SUCCEEDED,
        ExecutionState.FAILED,
        ExecutionState.UNKNOWN,
    ],
)
def test_denied_says_that_nothing_was_ever_started(old):
    with pytest.raises(ConflictError, match=f"c1: {old.value} cannot become denied"):
        require_execution_step("c1", old, ExecutionState.DENIED)


def test_a_crashed_execution_may_be_started_again():
    assert may_execution_become(ExecutionState.STARTED, ExecutionState.STARTED)
    assert may_execution_become(ExecutionState.UNKNOWN, ExecutionState.STARTED)


@pytest.mark.parametrize(
    "old", [ExecutionState.SUCCEEDED, ExecutionState.FAILED, ExecutionState.DENIED]
)
def test_an_ended_execution_is_never_started_again(old):
    assert not may_execution_become(old, ExecutionState.STARTED)
