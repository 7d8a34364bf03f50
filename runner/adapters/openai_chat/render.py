"""From our request to the bytes of a Chat Completions body: pure, the same in gives the same out.

Every history gives a body that the strictest server takes: each call is followed by exactly one
result, in order; neighbours of one role are one message; nothing is blank; arguments are objects.
Bodies are canonical JSON. A change of what comes out needs a new RENDERER; the old one stays.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from policies import Json, canonical_json
from runner.adapters.openai_chat.dialect import ChatDialect, find_dialect
from runner.domain.arguments import object_text
from runner.domain.calls import ContextMessage, ModelRequest, Role, ToolCall, ToolSchema
from runner.domain.ids import CallId
from runner.domain.text import clean_text

RENDERER = 1
"""Version of the rules below."""

NO_OUTPUT = "(no output)"
NO_RESULT = "(no result of this call was recorded)"
EMPTY_MESSAGE = "(empty message)"
BLOCK_SEPARATOR = "\n\n"
"""Between messages that become one."""

NAME_CHARACTERS = 64  # OpenAI's limit on a function's name
_UNFIT_IN_NAME = re.compile(r"[^A-Za-z0-9_-]")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wire:
    """One message on the wire before neighbours are joined."""

    role: str
    text: str
    """Empty only for an assistant message that has calls."""
    calls: tuple[ToolCall, ...] = ()
    call_id: str = ""


@dataclass(frozen=True, slots=True)
class ChatRenderer:
    """Renders as this version does, without a provider to send to."""

    dialect: ChatDialect

    def render(self, request: ModelRequest) -> bytes:
        """Return the exact body of a request.

        Raises:
            CanonicalFormError: a tool's schema holds a number with a fraction.
        """
        return render_chat(request, self.dialect)


def find_chat_renderer(adapter: str, renderer: int) -> ChatRenderer | None:
    """Return the renderer of a past request, or None where adapter or version is not ours."""
    dialect = find_dialect(adapter)
    return ChatRenderer(dialect) if dialect is not None and renderer == RENDERER else None


def render_chat(request: ModelRequest, dialect: ChatDialect) -> bytes:
    """Return the exact body of a request.

    Raises:
        CanonicalFormError: a tool's schema holds a number with a fraction.
    """
    wires = [*_system(request.instructions), *_convert(request.messages, dialect)]
    body: dict[str, Json] = {
        "model": request.model,
        dialect.limit_field.value: request.max_output_tokens,
        "messages": [_message_json(one) for one in _join_neighbours(wires)],
    }
    if request.tools:
        body["tools"] = [_tool_json(one) for one in request.tools]
    return canonical_json(body)


def _system(instructions: str) -> Iterator[_Wire]:
    if instructions.strip():
        yield _Wire(role="system", text=instructions)


def _convert(messages: Iterable[ContextMessage], dialect: ChatDialect) -> Iterator[_Wire]:
    """Put each result behind its call; what else came between follows."""
    messages = tuple(messages)
    results = {one.call_id: one.text for one in messages if one.role is Role.TOOL and one.call_id}
    called: set[CallId] = set()
    for message in messages:
        match message.role:
            case Role.ASSISTANT:
                called.update(call.call_id for call in message.calls)
                yield from _assistant(message, results)
            case Role.TOOL:
                if message.call_id not in called:
                    text = f"Result of a call that is not shown here:\n{_or(message, NO_OUTPUT)}"
                    yield _Wire(role="user", text=text)
            case Role.USER:
                yield _Wire(role="user", text=_or(message, EMPTY_MESSAGE))
            case Role.DEVELOPER | Role.SYSTEM:
                if message.text.strip():
                    yield _Wire(role=dialect.developer_role.value, text=message.text)


def _assistant(message: ContextMessage, results: Mapping[CallId, str]) -> Iterator[_Wire]:
    """Return an answer and its results; a blank answer stays, so that turns still count."""
    text = message.text if message.text.strip() else ""
    if not message.calls:
        text = text or EMPTY_MESSAGE
    yield _Wire(role="assistant", text=text, calls=message.calls)
    for call in message.calls:
        result = results.get(call.call_id, NO_RESULT)
        yield _Wire(
            role="tool", text=result if result.strip() else NO_OUTPUT, call_id=call.call_id
        )


def _or(message: ContextMessage, placeholder: str) -> str:
    return message.text if message.text.strip() else placeholder


def _join_neighbours(wires: Iterable[_Wire]) -> list[_Wire]:
    joined: list[_Wire] = []
    for wire in wires:
        if joined and joined[-1].role == wire.role != "tool":
            former = joined.pop()
            texts = [one for one in (former.text, wire.text) if one]
            calls = former.calls + wire.calls
            joined.append(_Wire(role=wire.role, text=BLOCK_SEPARATOR.join(texts), calls=calls))
        else:
            joined.append(wire)
    return joined


def _message_json(wire: _Wire) -> Json:
    message: dict[str, Json] = {
        "role": wire.role,
        "content": clean_text(wire.text).text or None,
    }
    if wire.calls:
        message["tool_calls"] = [_call_json(call) for call in wire.calls]
    if wire.role == "tool":
        message["tool_call_id"] = wire.call_id
    return message


def _call_json(call: ToolCall) -> Json:
    """Return a call under our own id: a provider's ids may repeat, be empty or be too long."""
    function: Json = {"name": _fit_name(call.name), "arguments": _fit_arguments(call.arguments)}
    return {"id": call.call_id, "type": "function", "function": function}


def _fit_name(name: str) -> str:
    return _UNFIT_IN_NAME.sub("_", name)[:NAME_CHARACTERS] or "unnamed"


def _fit_arguments(arguments: str) -> str:
    """Return the text as received where it is an object; else an object that quotes it."""
    text = clean_text(arguments).text
    found = object_text(text)
    if found is not None:
        return clean_text(found).text
    return canonical_json({"malformed_arguments": text}).decode()


def _tool_json(schema: ToolSchema) -> Json:
    function: Json = {
        "name": schema.name,
        "description": schema.description,
        "parameters": schema.parameters,
    }
    return {"type": "function", "function": function}
