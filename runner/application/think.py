"""One model call: tell what is new, build the request from the rollout, ask, store the answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from policies import Json, canonical_json, digest_bytes
from runner.application.ports.model import Model
from runner.application.session import Session, Step
from runner.application.surroundings import list_sections
from runner.domain.calls import ModelReply, ModelRequest, StopReason, ToolSchema
from runner.domain.context import project_messages
from runner.domain.ids import CallId
from runner.domain.instructions import INSTRUCTIONS
from runner.domain.items import (
    AssistantMessage,
    StoredCall,
    TokenUsage,
    ToolResult,
    ToolStatus,
    TurnContext,
)
from runner.domain.text import clean_text
from runner.domain.world_state import find_differences

MAX_OUTPUT_TOKENS = 8192
"""What one answer may have; part of the turn_context."""


def think(session: Session, model: Model, *, model_name: str, tools: Sequence[ToolSchema]) -> None:
    """Ask the model once and append its answer before anything of it runs.

    Raises:
        ModelError: no usable answer; the turn_context stays, nothing else was appended.
        RunStoppedError: the run was told to stop before the call.
    """
    _tell_news(session)
    request = ModelRequest(
        model=model_name,
        instructions=INSTRUCTIONS,
        tools=tuple(tools),
        messages=project_messages(session.items),
        max_output_tokens=MAX_OUTPUT_TOKENS,
    )
    body = model.render(request)
    _record_turn(session, model, request=request, body=body)
    session.stop.check()
    reply = model.complete(body, deadline_seconds=max(session.wall_seconds_left, 1.0))
    _record_reply(session, reply)


def _tell_news(session: Session) -> None:
    news = find_differences(session.items, list_sections(session))
    if news:
        with session.step() as step:
            step.news.extend(news)


def _record_turn(session: Session, model: Model, *, request: ModelRequest, body: bytes) -> None:
    schemas: list[Json] = [asdict(schema) for schema in request.tools]
    with session.step() as step:
        step.append(
            TurnContext(
                run_id=session.run.run_id,
                adapter=model.adapter,
                renderer=model.renderer,
                model=request.model,
                instructions=step.writer.put_evidence(request.instructions.encode()),
                tools=step.writer.put_evidence(canonical_json(schemas)),
                max_output_tokens=request.max_output_tokens,
                body_digest=digest_bytes(body),
                body_bytes=len(body),
            )
        )
        step.use(model_calls=1)


def _record_reply(session: Session, reply: ModelReply) -> None:
    calls = tuple(
        StoredCall(
            call_id=CallId(session.services.make_id("call")),
            provider_call_id=clean_text(call.provider_call_id).text,
            name=clean_text(call.name).text,
            arguments=clean_text(call.arguments).text,
        )
        for call in reply.calls
    )
    message = AssistantMessage(
        text=clean_text(reply.text).text,
        calls=calls,
        stop=reply.stop.value,
        provider_request_id=reply.provider_request_id,
    )
    with session.step() as step:
        step.append_message(message)
        _record_usage(step, reply)
        if reply.stop is StopReason.LENGTH:
            _answer_cut_calls(step, calls)


def _record_usage(step: Step, reply: ModelReply) -> None:
    tokens = reply.tokens
    step.append(
        TokenUsage(
            input_tokens=tokens.input_tokens,
            output_tokens=tokens.output_tokens,
            cost_micro_usd=reply.cost_micro_usd,
        )
    )
    step.use(
        tokens=(tokens.input_tokens or 0) + (tokens.output_tokens or 0),
        cost_micro_usd=reply.cost_micro_usd or 0,
    )


def _answer_cut_calls(step: Step, calls: Sequence[StoredCall]) -> None:
    for call in calls:
        step.append_message(
            ToolResult(
                call_id=call.call_id,
                status=ToolStatus.FAILED,
                reason="truncated",
                text=(
                    f"Your answer was cut off at {MAX_OUTPUT_TOKENS} tokens, so this call was not "
                    "run. Send it again, shorter."
                ),
            )
        )
