"""From a provider's answer to our own reply: lenient in shape, strict in what counts as whole."""

from __future__ import annotations

import json
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from runner.adapters.openai_chat.failures import Failure, error_in_answer, unusable
from runner.domain.arguments import parse_arguments
from runner.domain.calls import ModelReply, ReceivedCall, StopReason, TokenCount
from runner.domain.text import clean_text, decode_output
from runner.errors import ModelRefusedError

LENGTH_REASONS = frozenset({"length", "max_tokens", "model_length"})
REFUSAL_REASONS = frozenset({"content_filter", "refusal"})
FAILURE_REASONS = frozenset({"error"})

LIMIT_FIELDS = ("max_tokens", "max_completion_tokens")


def _text_or_empty(value: object) -> object:
    """Accept null and lists of text parts where a text belongs."""
    if value is None:
        return ""
    if isinstance(value, list):
        parts = [one.get("text") for one in value if isinstance(one, dict)]
        return "".join(part for part in parts if isinstance(part, str))
    return value


def _arguments_text(value: object) -> object:
    """Accept a value where its JSON text belongs, as some servers send it."""
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _count_or_none(value: object) -> object:
    is_count = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    return value if is_count else None


def _object_or_none(value: object) -> object:
    return value if isinstance(value, dict) else None


def _list_or_empty(value: object) -> object:
    return () if value is None else value


Text = Annotated[str, BeforeValidator(_text_or_empty)]
ArgumentsText = Annotated[str, BeforeValidator(_arguments_text)]
Count = Annotated[int | None, BeforeValidator(_count_or_none)]


class _Lenient(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class _Function(_Lenient):
    name: Text = ""
    arguments: ArgumentsText = ""


class _Call(_Lenient):
    id: Text = ""
    function: _Function = _Function()


class _Message(_Lenient):
    content: Text = ""
    refusal: Text = ""
    tool_calls: Annotated[tuple[_Call, ...], BeforeValidator(_list_or_empty)] = ()


class _Choice(_Lenient):
    message: _Message
    finish_reason: Text = ""


class _Usage(_Lenient):
    prompt_tokens: Count = None
    completion_tokens: Count = None


class _Completion(_Lenient):
    id: Text = ""
    choices: tuple[_Choice, ...] = Field(min_length=1)
    usage: Annotated[_Usage | None, BeforeValidator(_object_or_none)] = None


def read_reply(data: bytes, *, sent: bytes) -> ModelReply | Failure:
    """Return the reply that an answer of status 200 holds, or why it is none."""
    try:
        value = json.loads(decode_output(data).text)
    except (ValueError, RecursionError):
        return unusable("the answer is not JSON", data)
    failure = error_in_answer(value)
    if failure is not None:
        return failure
    try:
        completion = _Completion.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "answer"
        return unusable(f"{where}: {first['msg']}", data)
    return _to_reply(completion, data=data, sent=sent)


def _to_reply(completion: _Completion, *, data: bytes, sent: bytes) -> ModelReply | Failure:
    choice = completion.choices[0]
    reason, message = choice.finish_reason.lower(), choice.message
    if message.refusal or reason in REFUSAL_REASONS:
        said = clean_text(message.refusal or message.content).text[:500]
        return Failure(ModelRefusedError(f"the model declined: {said!r} ({reason or 'refusal'})"))
    if not reason or reason in FAILURE_REASONS:
        return unusable(f"the answer did not end by itself (finish_reason {reason!r})", data)
    usage = completion.usage or _Usage()
    calls = tuple(_received(call) for call in message.tool_calls)
    return ModelReply(
        text=clean_text(message.content).text,
        calls=calls,
        stop=_stop_of(reason, calls, usage=usage, sent=sent),
        tokens=TokenCount(input_tokens=usage.prompt_tokens, output_tokens=usage.completion_tokens),
        cost_micro_usd=None,
        provider_request_id=clean_text(completion.id).text,
    )


def _received(call: _Call) -> ReceivedCall:
    return ReceivedCall(
        provider_call_id=clean_text(call.id).text,
        name=clean_text(call.function.name).text,
        arguments=clean_text(call.function.arguments).text,
    )


def _stop_of(
    reason: str, calls: tuple[ReceivedCall, ...], *, usage: _Usage, sent: bytes
) -> StopReason:
    """Trust the calls more than the word, and a used-up limit more than both."""
    if reason in LENGTH_REASONS:
        return StopReason.LENGTH
    if not calls:
        return StopReason.END
    broken = any(not _is_object(call.arguments) for call in calls)
    if broken and _used_up(usage, sent):
        return StopReason.LENGTH
    return StopReason.TOOL_CALLS


def _is_object(arguments: str) -> bool:
    try:
        parse_arguments(arguments)
    except ValueError:
        return False
    return True


def _used_up(usage: _Usage, sent: bytes) -> bool:
    """Tell whether the answer is as long as the request allowed."""
    body = json.loads(sent)
    limits = [body[name] for name in LIMIT_FIELDS if name in body]
    return bool(limits) and (usage.completion_tokens or 0) >= min(limits)
