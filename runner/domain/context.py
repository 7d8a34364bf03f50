"""From a rollout to what a model is sent: the only way into a request.

Everything in a request comes from items; nothing else may add text. `rebuild_request` makes the
request of a past turn again, from the items before its turn_context and the evidence it names.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence

from runner.domain.calls import ContextMessage, ModelRequest, Role, ToolCall, ToolSchema
from runner.domain.ids import EvidenceId
from runner.domain.items import (
    AssistantMessage,
    FragmentItem,
    RolloutItem,
    StoredCall,
    ToolResult,
    TurnContext,
    UserMessage,
)


def project_messages(items: Iterable[RolloutItem]) -> tuple[ContextMessage, ...]:
    """Return the messages of a conversation in order."""
    messages: list[ContextMessage] = []
    for item in items:
        message = _message_of(item)
        if message is not None:
            messages.append(message)
    return tuple(messages)


def rebuild_request(
    items: Sequence[RolloutItem], turn: RolloutItem, read_evidence: Callable[[EvidenceId], bytes]
) -> ModelRequest:
    """Return the request that a turn_context item describes.

    Raises:
        TypeError: the item is not a turn_context.
        NotFoundError: the evidence it names is gone (from `read_evidence`).
    """
    context = turn.payload
    if not isinstance(context, TurnContext):
        raise TypeError(f"item {turn.seq} is a {turn.kind}, not a turn_context")
    schemas = json.loads(read_evidence(context.tools))
    return ModelRequest(
        model=context.model,
        instructions=read_evidence(context.instructions).decode(),
        tools=tuple(ToolSchema(**schema) for schema in schemas),
        messages=project_messages(item for item in items if item.seq < turn.seq),
        max_output_tokens=context.max_output_tokens,
    )


def find_pending_calls(items: Sequence[RolloutItem]) -> tuple[StoredCall, ...]:
    """Return the calls of the last assistant message that have no result yet, in order."""
    last = next(
        (item.payload for item in reversed(items) if isinstance(item.payload, AssistantMessage)),
        None,
    )
    if last is None:
        return ()
    answered = {item.payload.call_id for item in items if isinstance(item.payload, ToolResult)}
    return tuple(call for call in last.calls if call.call_id not in answered)


def _message_of(item: RolloutItem) -> ContextMessage | None:
    match item.payload:
        case UserMessage(text=text):
            return ContextMessage(role=Role.USER, text=text)
        case FragmentItem(role=role, text=text):
            return ContextMessage(role=Role(role), text=text)
        case AssistantMessage(text=text, calls=calls):
            stored = tuple(_call_of(call) for call in calls)
            return ContextMessage(role=Role.ASSISTANT, text=text, calls=stored)
        case ToolResult(text=text, call_id=call_id):
            return ContextMessage(role=Role.TOOL, text=text, call_id=call_id)
        case _:
            return None


def _call_of(call: StoredCall) -> ToolCall:
    return ToolCall(
        call_id=call.call_id,
        provider_call_id=call.provider_call_id,
        name=call.name,
        arguments=call.arguments,
    )
