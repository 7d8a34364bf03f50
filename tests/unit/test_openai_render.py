import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.adapters.openai_chat import (
    RENDERER,
    ChatDialect,
    DeveloperRole,
    LimitField,
    find_chat_renderer,
    render_chat,
)
from runner.adapters.script_server import answer_chat
from runner.application.tools import TOOL_NAMES, make_tools
from runner.domain.calls import ContextMessage, ModelRequest, Role, ToolCall
from runner.domain.script import parse_script

SCRIPT = parse_script('{"replies": [{"text": "hello"}]}')
SCHEMAS = tuple(tool.schema for tool in make_tools(TOOL_NAMES).values())
DIALECT = ChatDialect()


def request(*messages: ContextMessage, **changed) -> ModelRequest:
    fields = {
        "model": SCRIPT.model_name,
        "instructions": "Repair it.",
        "tools": SCHEMAS,
        "messages": messages,
        "max_output_tokens": 1000,
        **changed,
    }
    return ModelRequest(**fields)


def user(text: str = "go") -> ContextMessage:
    return ContextMessage(role=Role.USER, text=text)


def call(call_id: str, name: str = "shell", arguments: str = "{}") -> ToolCall:
    return ToolCall(call_id=call_id, provider_call_id="x", name=name, arguments=arguments)


def said(*calls: ToolCall, text: str = "") -> ContextMessage:
    return ContextMessage(role=Role.ASSISTANT, text=text, calls=calls)


def result(call_id: str, text: str = "done") -> ContextMessage:
    return ContextMessage(role=Role.TOOL, call_id=call_id, text=text)


def messages_of(*messages: ContextMessage, dialect: ChatDialect = DIALECT) -> list[dict]:
    return json.loads(render_chat(request(*messages), dialect))["messages"][1:]


def check(body: bytes) -> None:
    answer = answer_chat(body, {SCRIPT.model_name: SCRIPT})
    assert answer.status == 200, answer.body.decode()


TEXTS = st.text(max_size=12) | st.sampled_from(
    ["", " ", "\n\t", "\x00", "\ud800", "\u2028", "a\x85b", "😀", "[]", "null"]
)
ARGUMENTS = TEXTS | st.sampled_from(
    ['{"a":1}', '{"a": 1.5}', '"{}"', '"[1]"', '{"a":', r'{"a":"\ud800"}', "NaN", '{"a":NaN}']
)
NAMES = st.sampled_from(["shell", "finish", "no such tool!", "", "x" * 100, "ü"])


@st.composite
def turns(draw, number: int) -> list[ContextMessage]:
    count = draw(st.integers(0, 4))
    calls = [call(f"c{number}x{one}", draw(NAMES), draw(ARGUMENTS)) for one in range(count)]
    results = [result(one.call_id, draw(TEXTS)) for one in calls]
    answered = draw(st.permutations(results))[: draw(st.integers(0, count))]
    between = draw(st.lists(st.sampled_from([Role.USER, Role.DEVELOPER, Role.SYSTEM]), max_size=3))
    others = [ContextMessage(role=role, text=draw(TEXTS)) for role in between]
    return [said(*calls, text=draw(TEXTS)), *draw(st.permutations([*answered, *others]))]


@st.composite
def histories(draw) -> list[ContextMessage]:
    history = [user(draw(TEXTS))]
    for number in range(draw(st.integers(0, 5))):
        history.extend(draw(turns(number)))
    return history


@settings(max_examples=100)
@given(histories(), st.booleans())
def test_every_history_gives_a_body_that_the_strict_server_takes(history, with_tools):
    made = request(*history, tools=SCHEMAS if with_tools else ())

    body = render_chat(made, DIALECT)

    check(body)
    assert render_chat(made, DIALECT) == body


@given(histories())
def test_a_longer_history_begins_with_the_messages_of_the_shorter_one(history):
    whole = [one for one in history if one.role is not Role.TOOL]
    before = messages_of(*whole)
    after = messages_of(*whole, said(text="next"), user("go on"))

    assert after[: len(before) - 1] == before[:-1]


def test_each_call_is_followed_by_its_result_whatever_came_between():
    messages = messages_of(
        user(), said(call("c1"), call("c2")), user("by the way"), result("c2", "two"), result("c1")
    )

    assert [one["role"] for one in messages] == ["user", "assistant", "tool", "tool", "user"]
    assert [one.get("tool_call_id") for one in messages[2:4]] == ["c1", "c2"]


def test_a_call_without_a_result_and_a_result_without_a_call_are_said_to_be_so():
    messages = messages_of(user(), said(call("c1")), result("c9", "lost"))

    assert messages[2] == {
        "role": "tool",
        "tool_call_id": "c1",
        "content": "(no result of this call was recorded)",
    }
    assert messages[3]["content"] == "Result of a call that is not shown here:\nlost"


def test_the_id_on_the_wire_is_ours_and_not_the_providers():
    messages = messages_of(user(), said(call("cabc")), result("cabc"))

    assert messages[1]["tool_calls"][0]["id"] == messages[2]["tool_call_id"] == "cabc"


@pytest.mark.parametrize(
    ("received", "sent"),
    [
        ('{"b": 1,  "a": 2.50}', '{"b": 1,  "a": 2.50}'),
        ("", "{}"),
        ('"{\\"a\\":1}"', '{"a":1}'),
        ('{"a": "half', '{"malformed_arguments":"{\\"a\\": \\"half"}'),
        ("[1]", '{"malformed_arguments":"[1]"}'),
    ],
)
def test_arguments_go_back_as_received_or_quoted_in_an_object(received, sent):
    messages = messages_of(user(), said(call("c1", arguments=received)), result("c1"))

    assert messages[1]["tool_calls"][0]["function"]["arguments"] == sent


def test_blank_texts_become_words_and_a_blank_fragment_is_left_out():
    blank = ContextMessage(role=Role.DEVELOPER, text=" ")
    messages = messages_of(
        user("\n"), blank, said(call("c1"), text="\n"), result("c1", ""), said()
    )

    assert [one["content"] for one in messages] == [
        "(empty message)",
        None,
        "(no output)",
        "(empty message)",
    ]


def test_neighbours_of_one_role_are_one_message():
    fragment = ContextMessage(role=Role.DEVELOPER, text="<note/>")

    assert messages_of(user("a"), fragment, user("b")) == [
        {"role": "user", "content": "a\n\n<note/>\n\nb"}
    ]


def test_a_dialect_changes_role_and_field_and_shows_in_the_adapters_name():
    dialect = ChatDialect(DeveloperRole.DEVELOPER, LimitField.MAX_COMPLETION_TOKENS)
    fragment = ContextMessage(role=Role.DEVELOPER, text="note")

    body = json.loads(render_chat(request(user(), fragment), dialect))

    assert body["messages"][-1] == {"role": "developer", "content": "note"}
    assert body["max_completion_tokens"] == 1000
    assert dialect.adapter == "openai_chat:developer=developer:limit=max_completion_tokens"


@pytest.mark.parametrize("role", DeveloperRole)
@pytest.mark.parametrize("limit", LimitField)
def test_a_past_request_is_rendered_again_from_adapter_and_version(role, limit):
    dialect = ChatDialect(role, limit)
    made = request(user(), ContextMessage(role=Role.DEVELOPER, text="note"))

    renderer = find_chat_renderer(dialect.adapter, RENDERER)

    assert renderer.render(made) == render_chat(made, dialect)


def test_another_adapter_or_version_has_no_renderer_here():
    assert find_chat_renderer("anthropic", RENDERER) is None
    assert find_chat_renderer(DIALECT.adapter, RENDERER + 1) is None


def test_the_bytes_of_version_1_stay():
    made = replace(
        request(user("é"), said(call("c1", arguments='{"command": "ls"}')), result("c1")),
        model="m",
        tools=SCHEMAS[-1:],
    )

    assert render_chat(made, DIALECT).decode() == (
        '{"max_tokens":1000,"messages":[{"content":"Repair it.","role":"system"},'
        '{"content":"é","role":"user"},{"content":null,"role":"assistant","tool_calls":'
        '[{"function":{"arguments":"{\\"command\\": \\"ls\\"}","name":"shell"},"id":"c1",'
        '"type":"function"}]},{"content":"done","role":"tool","tool_call_id":"c1"}],"model":"m",'
        '"tools":[{"function":{"description":'
        '"End the work on this task. Call it once, when nothing is left to do.","name":"finish",'
        '"parameters":{"additionalProperties":false,'
        '"properties":{"summary":{"description":'
        '"What was done and what was not, in a few sentences.","type":"string"}},'
        '"required":["summary"],"type":"object"}},"type":"function"}]}'
    )
