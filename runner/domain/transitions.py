"""Which state may follow which, for runs and for executions; staying is always allowed."""

from __future__ import annotations

from runner.domain.outcome import TERMINAL_STATES, RunState
from runner.domain.records import ExecutionState
from runner.errors import ConflictError

_PAUSED = frozenset({RunState.WAITING, RunState.AWAITING_APPROVAL, RunState.NEEDS_ATTENTION})

RUN_STATES_AFTER: dict[RunState, frozenset[RunState]] = {
    # what never ran cannot be done, and waits for nothing but its start
    RunState.QUEUED: frozenset({RunState.RUNNING, RunState.NEEDS_ATTENTION})
    | (TERMINAL_STATES - {RunState.COMPLETED}),
    # queued again: handed over between two steps
    RunState.RUNNING: frozenset({RunState.QUEUED}) | _PAUSED | TERMINAL_STATES,
    # verified and done only after running again
    **dict.fromkeys(
        _PAUSED,
        frozenset({RunState.QUEUED, RunState.RUNNING})
        | _PAUSED
        | (TERMINAL_STATES - {RunState.COMPLETED}),
    ),
    # terminal for the run: going on is another run
    **dict.fromkeys(TERMINAL_STATES, frozenset()),
}

_ENDED = frozenset({ExecutionState.SUCCEEDED, ExecutionState.FAILED})

EXECUTION_STATES_AFTER: dict[ExecutionState, frozenset[ExecutionState]] = {
    ExecutionState.REQUESTED: frozenset(
        {
            ExecutionState.DECIDING,
            ExecutionState.AWAITING_APPROVAL,
            ExecutionState.STARTED,
            ExecutionState.DENIED,
            ExecutionState.FAILED,
        }
    ),
    ExecutionState.DECIDING: frozenset(
        {
            ExecutionState.AWAITING_APPROVAL,
            ExecutionState.STARTED,
            ExecutionState.DENIED,
            ExecutionState.FAILED,
        }
    ),
    ExecutionState.AWAITING_APPROVAL: frozenset(
        {
            ExecutionState.DECIDING,
            ExecutionState.STARTED,
            ExecutionState.DENIED,
            ExecutionState.FAILED,
        }
    ),
    # never denied from here on: denied says that the executor was not called
    ExecutionState.STARTED: _ENDED | {ExecutionState.HELD, ExecutionState.UNKNOWN},
    ExecutionState.HELD: _ENDED | {ExecutionState.UNKNOWN},
    # a person says what happened, or has it rolled back and started again
    ExecutionState.UNKNOWN: _ENDED | {ExecutionState.STARTED},
    ExecutionState.SUCCEEDED: frozenset(),
    ExecutionState.FAILED: frozenset(),
    ExecutionState.DENIED: frozenset(),
}


def may_run_become(old: RunState, new: RunState) -> bool:
    """Tell whether a run in one state may be stored in another."""
    return new == old or new in RUN_STATES_AFTER[old]


def may_execution_become(old: ExecutionState, new: ExecutionState) -> bool:
    """Tell whether an execution in one state may be stored in another."""
    return new == old or new in EXECUTION_STATES_AFTER[old]


def require_run_step(run_id: str, old: RunState, new: RunState) -> None:
    """Refuse a change of a run's state that makes no sense.

    Raises:
        ConflictError: a run may not go from the one state to the other.
    """
    if not may_run_become(old, new):
        raise ConflictError(f"run {run_id}: {old.value} cannot become {new.value}")


def require_execution_step(call_id: str, old: ExecutionState, new: ExecutionState) -> None:
    """Refuse a change of an execution's state that makes no sense.

    Raises:
        ConflictError: an execution may not go from the one state to the other.
    """
    if not may_execution_become(old, new):
        raise ConflictError(f"execution {call_id}: {old.value} cannot become {new.value}")
