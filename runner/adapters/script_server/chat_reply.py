"""The answer to a Chat Completions request: pure, the same body gives the same bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from policies import Json, canonical_json, digest_bytes
from runner.adapters.script_server.chat_request import (
    AssistantMessage,
    ChatRequest,
    parse_request,
)
from runner.adapters.script_server.chat_rules import check_rules
from runner.adapters.script_server.problem import RequestProblemError
from runner.domain.script import Script, ScriptedReply

TOKEN_BYTES = 4
"""Bytes that we count as one token: a rule of thumb, good enough for a script."""


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """Status and JSON body."""

    status: int
    body: bytes


def answer_chat(body: bytes, scripts: Mapping[str, Script]) -> HttpAnswer:
    """Check a request as a provider would and play the script that it names as its model."""
    try:
        request = parse_request(body)
        check_rules(request)
        script = _find_script(request, scripts)
    except RequestProblemError as problem:
        return HttpAnswer(problem.status, canonical_json(problem.to_json()))
    said = sum(isinstance(one, AssistantMessage) for one in request.messages)
    completion = _make_completion(body, request, script.reply_at(said))
    return HttpAnswer(200, canonical_json(completion))


def _find_script(request: ChatRequest, scripts: Mapping[str, Script]) -> Script:
    if request.stream:
        raise RequestProblemError("Streaming is not served here.", param="stream")
    script = scripts.get(request.model)
    if script is None:
        message = f"The model {request.model!r} does not exist."
        raise RequestProblemError(message, status=404, param="model", code="model_not_found")
    return script


def _make_completion(body: bytes, request: ChatRequest, reply: ScriptedReply) -> Json:
    digest = digest_bytes(body).removeprefix("sha256:")
    calls: list[Json] = [
        {
            "id": f"call_{digest[:24]}_{number}",
            "type": "function",
            "function": {"name": call.tool, "arguments": call.text},
        }
        for number, call in enumerate(reply.calls)
    ]
    message: dict[str, Json] = {"role": "assistant", "content": reply.text or None}
    if calls:
        message["tool_calls"] = calls
    finish = "tool_calls" if calls else "stop"
    choice: Json = {"index": 0, "message": message, "finish_reason": finish, "logprobs": None}
    return {
        "id": f"chatcmpl-{digest[:32]}",
        "object": "chat.completion",
        "created": 0,
        "model": request.model,
        "choices": [choice],
        "usage": _count_usage(body, message),
    }


def _count_usage(body: bytes, message: Json) -> Json:
    prompt = len(body) // TOKEN_BYTES + 1
    completion = len(canonical_json(message)) // TOKEN_BYTES + 1
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
    }
