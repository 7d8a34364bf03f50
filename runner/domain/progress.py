"""What a rollout says about how far a run has come."""

from __future__ import annotations

from collections.abc import Sequence

from runner.domain.ids import CallId
from runner.domain.items import (
    AssistantMessage,
    Event,
    ExecutionItem,
    RolloutItem,
    ToolResult,
    ToolStatus,
    UserMessage,
)
from runner.domain.records import ExecutionState, Run

CORRECTABLE = frozenset({"bad_arguments", "unknown_tool", "truncated"})
"""Reasons of a failed result that the model can mend by asking again."""

MAX_CORRECTIONS = 3
"""So many such results in a row end the run."""

SUSPENDED = "run.suspended"
"""Name of the event that tells an orderly stop from the loss of a worker."""

RESUMED = "run.resumed"
"""Name of the event of a start that goes on with what an earlier one left."""

SANDBOX_LOST = "sandbox.lost"
"""Name of the event of a sandbox that has to be rebuilt."""


def count_losses(items: Sequence[RolloutItem], run: Run) -> int:
    """Count the starts of a run that ended neither in order nor with the run: lost workers."""
    suspended = sum(
        isinstance(item.payload, Event)
        and item.payload.name == SUSPENDED
        and item.payload.run_id == run.run_id
        for item in items
    )
    return max(run.attempt - 1 - suspended, 0)


def count_crashes(items: Sequence[RolloutItem], call_id: CallId) -> int:
    """Count the starts of an open call that were cut off by anything but a suspension."""
    crashes = 0
    running = False
    for item in items:
        payload = item.payload
        if isinstance(payload, ExecutionItem) and payload.call_id == call_id:
            running = payload.state == ExecutionState.STARTED
            crashes += running
        elif isinstance(payload, Event) and payload.name in {SUSPENDED, RESUMED, SANDBOX_LOST}:
            crashes -= running and payload.name == SUSPENDED
            running = False
    return crashes


def has_finished(items: Sequence[RolloutItem], ending_tools: frozenset[str]) -> bool:
    """Tell whether the agent is done: it called an ending tool, or answered without a call."""
    for item in reversed(items):
        if isinstance(item.payload, UserMessage):
            return False
        if isinstance(item.payload, AssistantMessage):
            return not item.payload.calls or _has_ended(items, item.payload, ending_tools)
    return False


def count_corrections(items: Sequence[RolloutItem]) -> int:
    """Count the correctable failures since the last result that was none."""
    count = 0
    for item in reversed(items):
        if not isinstance(item.payload, ToolResult):
            continue
        if item.payload.reason not in CORRECTABLE:
            return count
        count += 1
    return count


def was_prevented(items: Sequence[RolloutItem]) -> bool:
    """Tell whether a call was denied or its changes were refused."""
    return any(
        isinstance(item.payload, ToolResult)
        and (item.payload.status is ToolStatus.DENIED or item.payload.reason == "changes_refused")
        for item in items
    )


def _has_ended(
    items: Sequence[RolloutItem], message: AssistantMessage, ending_tools: frozenset[str]
) -> bool:
    ending = {call.call_id for call in message.calls if call.name in ending_tools}
    return any(
        isinstance(item.payload, ToolResult)
        and item.payload.call_id in ending
        and item.payload.status is ToolStatus.SUCCEEDED
        for item in items
    )
