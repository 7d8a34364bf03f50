"""What every Model does: the double in this process and the adapter against a real server."""

import threading
from contextlib import ExitStack

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runner.adapters.fixed_clock import FixedClock, FixedEntropy
from runner.adapters.model_catalog import HttpModelCatalog
from runner.adapters.scripted_model import ScriptedModel
from runner.application.tools import TOOL_NAMES, make_tools
from runner.domain.calls import (
    ContextMessage,
    ModelReply,
    ModelRequest,
    ReceivedCall,
    Role,
    StopReason,
    ToolCall,
)
from runner.domain.script import parse_script
from runner.domain.task import AgentKind, AgentSpec
from runner.errors import ModelRequestError

SCRIPT = parse_script(
    """
replies:
  - text: Looking around.
    calls:
      - {tool: list_files, arguments: {path: src, depth: 2}}
      - {tool: shell, arguments_text: '{"command": '}
  - {text: "Done: é 😀 \\u2028 ok"}
  - {}
"""
)


@pytest.fixture(params=["double", "http"])
def model(request):
    if request.param == "double":
        yield ScriptedModel(SCRIPT)
        return
    with HttpModelCatalog(clock=FixedClock(), entropy=FixedEntropy()) as catalog:
        yield catalog.find_model(AgentSpec(kind=AgentKind.SCRIPTED, script=SCRIPT.canonical_text))


def request(model, *messages: ContextMessage) -> ModelRequest:
    return ModelRequest(
        model=model.name,
        instructions="Repair it.",
        tools=tuple(tool.schema for tool in make_tools(TOOL_NAMES).values()),
        messages=(ContextMessage(role=Role.USER, text="go"), *messages),
        max_output_tokens=1000,
    )


def ask(model, *messages: ContextMessage) -> ModelReply:
    return model.complete(model.render(request(model, *messages)), deadline_seconds=30)


def played(reply: ModelReply, prefix: str) -> list[ContextMessage]:
    """What a loop appends for a reply: the answer and a result for each call."""
    calls = tuple(
        ToolCall(
            call_id=f"{prefix}{number}",
            provider_call_id=one.provider_call_id,
            name=one.name,
            arguments=one.arguments,
        )
        for number, one in enumerate(reply.calls)
    )
    answer = ContextMessage(role=Role.ASSISTANT, text=reply.text, calls=calls)
    results = [ContextMessage(role=Role.TOOL, call_id=one.call_id, text="ok") for one in calls]
    return [answer, *results]


def test_the_same_request_gives_the_same_bytes_and_another_gives_others(model):
    again = model.render(request(model))

    assert model.render(request(model)) == again
    assert model.render(request(model, ContextMessage(role=Role.USER, text="more"))) != again


def test_it_says_which_format_version_and_abilities_it_has(model):
    assert (model.adapter, model.renderer) == ("openai_chat", 1)
    assert model.capabilities.tool_calls
    assert model.capabilities.parallel_calls


def test_calls_come_with_their_exact_arguments(model):
    reply = ask(model)

    assert reply.text == "Looking around."
    assert reply.stop is StopReason.TOOL_CALLS
    assert [(one.name, one.arguments) for one in reply.calls] == [
        ("list_files", '{"depth":2,"path":"src"}'),
        ("shell", '{"command": '),
    ]
    assert len({one.provider_call_id for one in reply.calls}) == 2


def test_a_script_is_played_in_order_and_its_end_is_said(model):
    history: list[ContextMessage] = []
    replies = []
    for turn in range(4):
        reply = ask(model, *history)
        replies.append(reply)
        history += played(reply, f"c{turn}")
        history.append(ContextMessage(role=Role.USER, text="go on"))

    assert [one.stop for one in replies] == [StopReason.TOOL_CALLS, *[StopReason.END] * 3]
    assert replies[1].text == "Done: é 😀 \u2028 ok"
    assert replies[2] == ModelReply(
        text="",
        calls=(),
        stop=StopReason.END,
        tokens=replies[2].tokens,
        cost_micro_usd=None,
        provider_request_id=replies[2].provider_request_id,
    )
    assert "used up" in replies[3].text


def test_the_same_body_gives_the_same_reply(model):
    assert ask(model) == ask(model)


def test_tokens_are_counted(model):
    tokens = ask(model).tokens

    assert tokens.input_tokens > 100
    assert tokens.output_tokens > 0


def test_a_body_that_breaks_the_format_is_refused_for_good(model):
    broken = model.render(request(model)).replace(b'"role":"user"', b'"role":"person"')

    with pytest.raises(ModelRequestError):
        model.complete(broken, deadline_seconds=30)


def test_an_unknown_model_is_refused_for_good(model):
    body = model.render(request(model)).replace(model.name.encode(), b"script-0000000000000000")

    with pytest.raises(ModelRequestError, match="does not exist"):
        model.complete(body, deadline_seconds=30)


def test_twenty_threads_get_their_own_replies(model):
    bodies = [
        model.render(request(model, *played(ask(model), f"c{number}"))) for number in range(20)
    ]
    replies: dict[int, list[ModelReply]] = {}

    def work(number: int) -> None:
        replies[number] = [model.complete(bodies[number], deadline_seconds=30) for _ in range(5)]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(20)]
    with ExitStack() as stack:
        for one in threads:
            one.start()
            stack.callback(one.join)

    assert {one.text for given in replies.values() for one in given} == {SCRIPT.replies[1].text}
    assert len({given[0].provider_request_id for given in replies.values()}) == 20


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    arguments=st.lists(st.text(max_size=8), max_size=4),
    results=st.lists(st.text(max_size=8), max_size=4),
    text=st.text(max_size=8),
)
def test_whatever_was_called_and_answered_the_next_request_is_taken(
    model, arguments, results, text
):
    calls = tuple(ReceivedCall(provider_call_id="", name="x", arguments=one) for one in arguments)
    reply = ModelReply(
        text=text,
        calls=calls,
        stop=StopReason.TOOL_CALLS,
        tokens=None,
        cost_micro_usd=None,
    )
    answer, *_ = played(reply, "c")
    told = [
        ContextMessage(role=Role.TOOL, call_id=f"c{number}", text=one)
        for number, one in enumerate(results)
    ]

    assert ask(model, answer, *told, ContextMessage(role=Role.USER, text=text)).text
