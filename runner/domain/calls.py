"""Messages of a conversation in our own types, and what is asked of a model."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from policies import Json
from runner.domain.ids import CallId


class Role(StrEnum):
    """Who speaks in a request."""

    SYSTEM = "system"
    #: our own words in the middle of a conversation; sent as user where a provider knows no other
    DEVELOPER = "developer"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """One call that a model asked for."""

    call_id: CallId
    """Ours, unique in the session."""
    provider_call_id: str
    """As received; may repeat or be empty."""
    name: str
    arguments: str
    """The exact text received."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextMessage:
    """One message of a request."""

    role: Role
    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    """Of an assistant message."""
    call_id: CallId | None = None
    """Of a tool message: which call it answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSchema:
    """A tool as a model is told of it."""

    name: str
    description: str
    parameters: Json
    """JSON Schema of the arguments object."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    """Everything that a request body is rendered from."""

    model: str
    instructions: str
    tools: tuple[ToolSchema, ...]
    messages: tuple[ContextMessage, ...]
    max_output_tokens: int


class StopReason(StrEnum):
    """Why a model stopped."""

    END = "end"
    TOOL_CALLS = "tool_calls"
    LENGTH = "length"
    REFUSAL = "refusal"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedCall:
    """A tool call as received, before it has an id of ours."""

    provider_call_id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenCount:
    """Tokens of one model call as the provider reports them; None = not reported, never zero."""

    input_tokens: int | None
    output_tokens: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelReply:
    """A whole, terminated answer."""

    text: str
    calls: tuple[ReceivedCall, ...]
    stop: StopReason
    tokens: TokenCount
    cost_micro_usd: int | None
    """None = unknown."""
    provider_request_id: str = ""
