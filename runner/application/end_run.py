"""The end of a run: what it came to, every open call answered, the rollout anchored."""

from __future__ import annotations

from dataclasses import dataclass, replace

from runner.application.session import Session, Step
from runner.domain.context import find_pending_calls
from runner.domain.items import Event, ToolResult, ToolStatus
from runner.domain.outcome import Outcome
from runner.domain.progress import was_prevented
from runner.domain.records import ExecutionState, VerifyResult

OPEN_STATES = frozenset(
    {ExecutionState.REQUESTED, ExecutionState.DECIDING, ExecutionState.STARTED}
)
"""States of an execution that a run's end has to close."""


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


def end_run(session: Session, end: RunEnd, *, verified: VerifyResult | None = None) -> None:
    """Close the run in one transaction: results for open calls, outcome, anchor.

    Raises:
        StaleLeaseError: someone else owns the run; nothing was written.
    """
    session.stop_clock()
    now = session.services.clock.now()
    with session.step() as step:
        _answer_open_calls(session, step, end)
        step.append(Event(name="run.ended", run_id=session.run.run_id, detail=end.outcome.value))
        step.run = replace(
            step.run,
            state=end.outcome.state,
            outcome=end.outcome,
            reason=end.reason,
            ended_at=now,
            verify_after=verified or step.run.verify_after,
        )
        step.anchor = True


def _answer_open_calls(session: Session, step: Step, end: RunEnd) -> None:
    for call in find_pending_calls(session.items):
        execution = step.writer.find_execution(
            session.task.session_id, session.run.run_id, call.call_id
        )
        unknown = (
            execution is not None
            and execution.state is ExecutionState.STARTED
            and session.reaches_outside
        )
        if execution is not None and execution.state in OPEN_STATES:
            state = ExecutionState.UNKNOWN if unknown else ExecutionState.FAILED
            step.writer.save_execution(replace(execution, state=state), expected=execution.state)
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
