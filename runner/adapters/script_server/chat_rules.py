"""Rules of a conversation that no shape expresses: order, pairing, alternation, nothing empty.

They are the union of what providers refuse: OpenAI's pairing and ids, the alternation and the one
leading system message of many local servers' templates, Anthropic's ban on blank text.
"""

from __future__ import annotations

from collections.abc import Sequence

from runner.adapters.script_server.chat_request import (
    AssistantMessage,
    ChatRequest,
    Content,
    Message,
    SystemMessage,
    ToolMessage,
)
from runner.adapters.script_server.problem import RequestProblemError
from runner.domain.arguments import object_text


def check_rules(request: ChatRequest) -> None:
    """Check what the shape leaves open.

    Raises:
        RequestProblemError: the first rule that is broken.
    """
    _check_tools(request)
    _check_order(request.messages)
    _check_pairing(request.messages)
    for index, message in enumerate(request.messages):
        _check_content(index, message)


def _check_tools(request: ChatRequest) -> None:
    names = [tool.function.name for tool in request.tools or ()]
    if len(set(names)) < len(names):
        raise RequestProblemError("Tool names must be unique.", param="tools")
    if request.tool_choice is not None and not names:
        message = "'tool_choice' is only allowed when 'tools' are specified."
        raise RequestProblemError(message, param="tool_choice")
    if request.max_tokens is not None and request.max_completion_tokens is not None:
        message = "'max_tokens' and 'max_completion_tokens' exclude each other."
        raise RequestProblemError(message, param="max_tokens")


def _check_order(messages: Sequence[Message]) -> None:
    spoken = messages[1:] if isinstance(messages[0], SystemMessage) else messages
    if not spoken or spoken[0].role != "user":
        raise RequestProblemError("The first message after the system's must be a user's.")
    previous = ""
    for message in spoken:
        if isinstance(message, SystemMessage):
            raise RequestProblemError("A system message may only be the first.")
        if message.role == previous and message.role != "tool":
            raise RequestProblemError(f"Roles must alternate: two {previous} messages in a row.")
        previous = message.role


def _check_pairing(messages: Sequence[Message]) -> None:
    seen: set[str] = set()
    open_ids: list[str] = []
    for index, message in enumerate(messages):
        where = f"messages.{index}"
        if isinstance(message, ToolMessage):
            if message.tool_call_id not in open_ids:
                raise RequestProblemError(
                    "A tool message must answer one open call of the assistant message before it.",
                    param=where,
                )
            open_ids.remove(message.tool_call_id)
            continue
        _refuse_open(open_ids, where)
        if isinstance(message, AssistantMessage):
            open_ids = [call.id for call in message.tool_calls or ()]
            _refuse_repeated(open_ids, seen, where)
            seen.update(open_ids)
    _refuse_open(open_ids, f"messages.{len(messages) - 1}")


def _refuse_open(open_ids: Sequence[str], where: str) -> None:
    if open_ids:
        listed = ", ".join(open_ids)
        raise RequestProblemError(f"Calls without a tool message: {listed}.", param=where)


def _refuse_repeated(ids: Sequence[str], seen: set[str], where: str) -> None:
    if len(set(ids)) < len(ids) or seen.intersection(ids):
        raise RequestProblemError("Call ids must be unique.", param=where)


def _check_content(index: int, message: Message) -> None:
    where = f"messages.{index}"
    calls = message.tool_calls or () if isinstance(message, AssistantMessage) else ()
    if message.content is None:
        if not calls:
            raise RequestProblemError(
                "An assistant message without calls needs text.", param=where
            )
    elif any(not text.strip() for text in _texts(message.content)):
        raise RequestProblemError("Text must not be blank.", param=f"{where}.content")
    for call in calls:
        _check_arguments(call.function.arguments, where)


def _texts(content: Content) -> list[str]:
    return [content] if isinstance(content, str) else [part.text for part in content]


def _check_arguments(arguments: str, where: str) -> None:
    if object_text(arguments) != arguments:
        message = "Arguments of a call must be the text of a JSON object."
        raise RequestProblemError(message, param=f"{where}.tool_calls")
