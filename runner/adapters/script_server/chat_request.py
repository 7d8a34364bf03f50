"""The shape of a Chat Completions request, as strictly as providers take it."""

from __future__ import annotations

import json
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from runner.adapters.script_server.problem import RequestProblemError

CALL_ID = r"^[A-Za-z0-9_-]{1,40}$"  # the longest id that OpenAI takes is 40
SHOWN_PROBLEMS = 3
TOOL_NAME = r"^[A-Za-z0-9_-]{1,64}$"  # OpenAI's function names


class Shape(BaseModel):
    """Exact types, no unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class TextPart(Shape):
    """One part of a content list."""

    type: Literal["text"]
    text: str


Content = str | Annotated[list[TextPart], Field(min_length=1)]


class SystemMessage(Shape):
    """Instructions."""

    role: Literal["system", "developer"]
    content: Content


class UserMessage(Shape):
    """What a user said."""

    role: Literal["user"]
    content: Content


class CalledFunction(Shape):
    """Name and arguments of a call."""

    name: str = Field(pattern=TOOL_NAME)
    arguments: str


class WireCall(Shape):
    """A call of an assistant message."""

    id: str = Field(pattern=CALL_ID)
    type: Literal["function"]
    function: CalledFunction


class AssistantMessage(Shape):
    """What the model answered before."""

    role: Literal["assistant"]
    content: Content | None = None
    tool_calls: list[WireCall] | None = Field(default=None, min_length=1)


class ToolMessage(Shape):
    """The result of a call."""

    role: Literal["tool"]
    content: Content
    tool_call_id: str = Field(pattern=CALL_ID)


Message = Annotated[
    SystemMessage | UserMessage | AssistantMessage | ToolMessage, Field(discriminator="role")
]


class ParametersSchema(BaseModel):
    """JSON Schema of a function's arguments: an object."""

    model_config = ConfigDict(frozen=True, extra="allow", strict=True)

    type: Literal["object"]
    properties: dict[str, JsonValue] = Field(default_factory=dict)


class FunctionSpec(Shape):
    """A function that may be called."""

    name: str = Field(pattern=TOOL_NAME)
    description: str = Field(default="", max_length=1024)  # OpenAI's limit
    parameters: ParametersSchema | None = None
    strict: bool | None = None


class ToolSpec(Shape):
    """A tool."""

    type: Literal["function"]
    function: FunctionSpec


class ChatRequest(Shape):
    """A whole request. `stream` is refused by the reply, not by the shape."""

    model: str = Field(min_length=1)
    messages: list[Message] = Field(min_length=1)
    tools: list[ToolSpec] | None = Field(default=None, min_length=1, max_length=128)
    tool_choice: Literal["auto", "none", "required"] | None = None
    parallel_tool_calls: bool | None = None
    max_tokens: int | None = Field(default=None, ge=1)
    max_completion_tokens: int | None = Field(default=None, ge=1)
    temperature: float | None = Field(default=None, ge=0, le=2)
    top_p: float | None = Field(default=None, ge=0, le=1)
    n: Literal[1] | None = None
    seed: int | None = None
    user: str | None = None
    stream: bool | None = None


def parse_request(body: bytes) -> ChatRequest:
    """Return the request that a body holds.

    Raises:
        RequestProblemError: not UTF-8, not JSON, half a surrogate pair, or another shape.
    """
    value = _decode(body)
    try:
        return ChatRequest.model_validate(value)
    except ValidationError as error:
        problems = error.errors(include_input=False)[:SHOWN_PROBLEMS]
        places = [".".join(str(part) for part in one["loc"]) for one in problems]
        told = (f"{place!r}: {one['msg']}" for place, one in zip(places, problems, strict=True))
        raise RequestProblemError(f"Invalid {'; '.join(told)}.", param=places[0]) from error


def _decode(body: bytes) -> object:
    try:
        text = body.decode("utf-8")
        value = json.loads(text, parse_constant=_refuse_constant)
        _check_characters(value)
    except (ValueError, RecursionError) as error:
        message = f"We could not parse the JSON body of your request: {error}"
        raise RequestProblemError(message) from error
    return value


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


def _check_characters(value: object) -> None:
    json.dumps(value, ensure_ascii=False).encode("utf-8")
