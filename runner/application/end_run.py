"""The end of a run: what it came to, every open call answered, the rollout anchored.

All of it is one transaction, the retry that follows included: whoever sees the end of a task's
last run sees the end of the task.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from runner.application.call_records import make_execution_item
from runner.application.session import Session, Step
from runner.application.submit_batch import make_run
from runner.domain.context import find_pending_calls
from runner.domain.items import Event, ToolResult, ToolStatus
from runner.domain.outcome import Outcome
from runner.domain.progress import was_prevented
from runner.domain.records import Execution, ExecutionState, Run, VerifyResult

OPEN_STATES = frozenset(
    {ExecutionState.REQUESTED, ExecutionState.DECIDING, ExecutionState.STARTED}
)
"""States of an execution that a run's end has to close."""

NO_RETRIES: Mapping[Outcome, int] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class RunEnd:
    """What a run came to."""

    outcome: Outcome
    reason: str
    """One sentence for a person."""


def decide_completed(session: Session, verified: VerifyResult | None) -> RunEnd:
    """Return the outcome of an agent that says it is done."""
    if verified is None:
        return RunEnd(Outcome.NOT_VERIFIED, "the task names no verification")
    if verified.passed:
        return RunEnd(Outcome.VERIFIED, "the verification passed")
    if was_prevented(session.items):
        return RunEnd(
            Outcome.PREVENTED,
            "a call was denied or its changes refused, and the verification failed: "
            f"{verified.detail}",
        )
    return RunEnd(Outcome.NOT_VERIFIED, f"the verification failed: {verified.detail}")


def end_run(
    session: Session,
    end: RunEnd,
    *,
    verified: VerifyResult | None = None,
    retries: Mapping[Outcome, int] = NO_RETRIES,
) -> Run | None:
    """Close the run in one transaction: results for open calls, outcome, anchor, next run.

    Args:
        retries: how often the batch allows another run after an outcome.

    Returns:
        The queued run that follows, or None when this was the task's last one.

    Raises:
        StaleLeaseError: someone else owns the run; nothing was written.
    """
    session.stop_clock()
    now = session.services.clock.now()
    with session.step() as step:
        _answer_open_calls(session, step, end)
        if session.items:
            name = "run.ended"
            step.append(Event(name=name, run_id=session.run.run_id, detail=end.outcome.value))
        step.run = replace(
            step.run,
            state=end.outcome.state,
            outcome=end.outcome,
            reason=end.reason,
            ended_at=now,
            verify_after=verified or step.run.verify_after,
        )
        step.anchor = True
        step.follow_up = _make_retry(session, step, end.outcome, retries=retries)
    return step.follow_up


def _make_retry(
    session: Session, step: Step, outcome: Outcome, *, retries: Mapping[Outcome, int]
) -> Run | None:
    if outcome not in retries:
        return None
    earlier = step.writer.list_runs(session.task.task_id)
    if sum(one.outcome is outcome for one in earlier) >= retries[outcome]:
        return None
    return make_run(session.task, session.services, number=session.run.number + 1)


def _answer_open_calls(session: Session, step: Step, end: RunEnd) -> None:
    for call in find_pending_calls(session.items):
        execution = step.writer.find_execution(
            session.task.session_id, session.run.run_id, call.call_id
        )
        unknown = execution is not None and _is_unknown(session, execution)
        if execution is not None and execution.state in OPEN_STATES:
            state = ExecutionState.UNKNOWN if unknown else ExecutionState.FAILED
            closed = replace(execution, state=state)
            step.writer.save_execution(closed, expected=execution.state)
            step.append(make_execution_item(closed))
        text = f"The run ended first ({end.outcome.value}). "
        text += "The effect of this call is not known." if unknown else "It changed no files."
        step.append_message(
            ToolResult(
                call_id=call.call_id,
                status=ToolStatus.UNKNOWN if unknown else ToolStatus.FAILED,
                reason="run_ended",
                text=text,
            )
        )


def _is_unknown(session: Session, execution: Execution) -> bool:
    """Tell whether an open call may have had an effect outside that nobody can take back."""
    if execution.state is ExecutionState.UNKNOWN:
        return True
    return execution.state is ExecutionState.STARTED and session.reaches_outside
