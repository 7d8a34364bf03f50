import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.domain.script import parse_script
from runner.errors import ScriptError

YAML = """
replies:
  - text: Looking.
    calls:
      - {tool: shell, arguments: {command: ls}}
      - {tool: shell, arguments_text: '{"command": '}
  - {text: Done.}
"""


def test_yaml_and_its_canonical_text_are_the_same_script():
    script = parse_script(YAML)
    again = parse_script(script.canonical_text)

    assert again == script
    assert again.model_name == script.model_name
    assert script.replies[0].calls[0].text == '{"command":"ls"}'
    assert script.replies[0].calls[1].text == '{"command": '


def test_a_model_name_is_as_long_as_promised_and_differs_between_scripts():
    one, other = (parse_script(json.dumps({"replies": [{"text": text}]})) for text in "ab")

    assert len(one.model_name) == len("script-") + 16
    assert one.model_name != other.model_name


def test_past_the_end_a_script_says_that_it_is_used_up():
    script = parse_script(YAML)

    assert script.reply_at(1).text == "Done."
    assert "used up" in script.reply_at(2).text
    assert script.reply_at(2).calls == ()


def call_with(arguments: str) -> str:
    return f"replies: [{{calls: [{{tool: shell, arguments: {arguments}}}]}}]"


@pytest.mark.parametrize(
    ("text", "where", "told"),
    [
        (call_with("{n: 1.5}"), "replies[0].calls[0].arguments.n", "a value of type float"),
        (call_with("{n: .nan}"), "replies[0].calls[0].arguments.n", "a value of type float"),
        (call_with("{n: 2026-11-30}"), "replies.0.calls.0.arguments.n", "valid JSON"),
        (call_with("[1]"), "replies.0.calls.0.arguments", "valid dictionary"),
        ("replies: []", "replies", "at least 1 item"),
        ("replies: [{words: x}]", "replies.0.words", "not permitted"),
        ("replies: [{text: no}]", "replies.0.text", "valid string"),
        ("[]", "script", "valid dictionary"),
        ("a: b: c", "script", "neither JSON nor YAML"),
        ('{"replies": [{"text": "\\ud800"}]}', "script", "lone surrogate"),
    ],
)
def test_what_cannot_be_played_is_refused_with_its_place(text, where, told):
    with pytest.raises(ScriptError) as refused:
        parse_script(text)

    assert str(refused.value).startswith(f"{where}: ")
    assert told in str(refused.value)


@given(
    st.dictionaries(
        st.text(max_size=5),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(max_size=5),
            lambda inner: st.lists(inner, max_size=3),
        ),
        max_size=4,
    )
)
def test_any_arguments_without_fractions_come_back_from_the_text_that_is_sent(arguments):
    document = {"replies": [{"calls": [{"tool": "shell", "arguments": arguments}]}]}

    script = parse_script(json.dumps(document))

    assert json.loads(script.replies[0].calls[0].text) == arguments
    assert parse_script(script.canonical_text) == script
