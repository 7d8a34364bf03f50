"""The tool calls of a session, each with its one result, for people who look at what happened."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from policies import Json
from runner.domain.ids import CallId
from runner.domain.instant import show_instant
from runner.domain.items import AssistantMessage, ExecutionItem, RolloutItem, ToolResult

ARGUMENT_CHARACTERS = 200
"""How much of a call's arguments a line shows."""

RESULT_CHARACTERS = 400
"""How much of a call's result a line shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolStep:
    """One tool call."""

    seq: int
    """Of the message that asked for it."""
    call_id: CallId
    at: datetime
    tool: str
    arguments: str
    """Cut to one line of at most 200 characters."""
    status: str = "pending"
    """succeeded, failed, denied, unknown; pending while there is no result."""
    reason: str = ""
    text: str = ""
    """The beginning of what the model was shown."""
    wall_milliseconds: int = 0
    attempt: int = 0

    def to_json(self) -> dict[str, Json]:
        """Return the form that results keep."""
        return {
            "seq": self.seq,
            "call_id": self.call_id,
            "at": show_instant(self.at),
            "tool": self.tool,
            "arguments": self.arguments,
            "status": self.status,
            "reason": self.reason,
            "text": self.text,
            "wall_milliseconds": self.wall_milliseconds,
            "attempt": self.attempt,
        }


def make_timeline(items: Iterable[RolloutItem]) -> tuple[ToolStep, ...]:
    """Return the tool calls of a rollout in the order in which they were asked for."""
    steps: dict[CallId, ToolStep] = {}
    for item in items:
        payload = item.payload
        if isinstance(payload, AssistantMessage):
            for call in payload.calls:
                steps[call.call_id] = ToolStep(
                    seq=item.seq,
                    call_id=call.call_id,
                    at=item.at,
                    tool=call.name,
                    arguments=cut_text(" ".join(call.arguments.split()), ARGUMENT_CHARACTERS),
                )
        elif isinstance(payload, ToolResult) and payload.call_id in steps:
            steps[payload.call_id] = replace(
                steps[payload.call_id],
                status=payload.status.value,
                reason=payload.reason,
                text=cut_text(payload.text, RESULT_CHARACTERS),
            )
        elif isinstance(payload, ExecutionItem) and payload.call_id in steps:
            steps[payload.call_id] = replace(
                steps[payload.call_id],
                attempt=payload.attempt,
                wall_milliseconds=payload.wall_milliseconds,
            )
    return tuple(steps.values())


def cut_text(text: str, characters: int) -> str:
    """Return the beginning of a text; what is missing is counted at its end."""
    if len(text) <= characters:
        return text
    return f"{text[:characters]}… (+{len(text) - characters} characters)"
