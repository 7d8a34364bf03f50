import json

import pytest

from runner.adapters.openai_chat import read_reply
from runner.adapters.openai_chat.failures import Failure
from runner.domain.calls import ModelReply, StopReason
from runner.errors import ModelRefusedError, ModelRequestError, ModelUnavailableError

SENT = b'{"max_tokens":100}'


def wire_call(arguments='{"a":1}', **changed):
    return {
        "id": "x",
        "type": "function",
        "function": {"name": "shell", "arguments": arguments},
        **changed,
    }


def answer(*calls, finish="stop", usage=None, **message) -> bytes:
    made = {"role": "assistant", "content": "hi", "tool_calls": list(calls) or None, **message}
    choice = {"index": 0, "message": made, "finish_reason": finish}
    return json.dumps({"id": "r1", "choices": [choice], "usage": usage}).encode()


def reply_of(data: bytes) -> ModelReply:
    reply = read_reply(data, sent=SENT)
    assert isinstance(reply, ModelReply), reply
    return reply


def failure_of(data: bytes) -> Failure:
    failure = read_reply(data, sent=SENT)
    assert isinstance(failure, Failure), failure
    return failure


def test_text_and_request_id_are_read():
    reply = reply_of(answer())

    assert (reply.text, reply.stop, reply.calls) == ("hi", StopReason.END, ())
    assert reply.provider_request_id == "r1"
    assert reply.cost_micro_usd is None


@pytest.mark.parametrize(
    ("usage", "counts"),
    [
        ({"prompt_tokens": 7, "completion_tokens": 0}, (7, 0)),
        ({"prompt_tokens": 7}, (7, None)),
        ({"prompt_tokens": -1, "completion_tokens": "3"}, (None, None)),
        ({"prompt_tokens": True, "completion_tokens": 1.5}, (None, None)),
        ({}, (None, None)),
        (None, (None, None)),
        ("free", (None, None)),
    ],
)
def test_usage_that_is_not_reported_is_unknown_and_never_zero(usage, counts):
    tokens = reply_of(answer(usage=usage)).tokens

    assert (tokens.input_tokens, tokens.output_tokens) == counts


@pytest.mark.parametrize(
    ("finish", "calls", "stop"),
    [
        ("stop", 0, StopReason.END),
        ("stop", 1, StopReason.TOOL_CALLS),
        ("tool_calls", 1, StopReason.TOOL_CALLS),
        ("tool_calls", 0, StopReason.END),
        ("eos_token", 0, StopReason.END),
        ("length", 0, StopReason.LENGTH),
        ("length", 1, StopReason.LENGTH),
        ("MAX_TOKENS", 1, StopReason.LENGTH),
    ],
)
def test_the_reason_to_stop_follows_from_word_and_calls(finish, calls, stop):
    reply = reply_of(answer(*[wire_call()] * calls, finish=finish))

    assert reply.stop is stop
    assert len(reply.calls) == calls


def test_a_cut_call_under_a_used_up_limit_is_a_cut_answer_whatever_it_is_called():
    usage = {"prompt_tokens": 1, "completion_tokens": 100}
    cut = reply_of(answer(wire_call('{"a": "ha'), finish="tool_calls", usage=usage))
    whole = reply_of(answer(wire_call(), finish="tool_calls", usage=usage))

    assert cut.stop is StopReason.LENGTH
    assert whole.stop is StopReason.TOOL_CALLS


@pytest.mark.parametrize(
    ("sent", "read"),
    [
        ('{"a": 1.50}', '{"a": 1.50}'),
        ({"a": "é"}, '{"a":"é"}'),
        (None, ""),
        ([1], "[1]"),
        ("\ud800", "\N{REPLACEMENT CHARACTER}"),
        ("a\0b", "a\N{REPLACEMENT CHARACTER}b"),
    ],
)
def test_arguments_are_the_text_received_in_a_form_that_can_be_stored(sent, read):
    assert reply_of(answer(wire_call(sent))).calls[0].arguments == read


@pytest.mark.parametrize("given", [None, "", 0])
def test_a_call_without_a_usable_id_is_still_a_call(given):
    reply = read_reply(answer(wire_call(id=given or None)), sent=SENT)

    assert reply.calls[0].provider_call_id == ""


def test_content_may_be_null_or_a_list_of_parts():
    assert reply_of(answer(content=None)).text == ""
    parts = [{"type": "text", "text": "a"}, {"type": "image"}, {"type": "text", "text": "b"}]
    assert reply_of(answer(content=parts)).text == "ab"


@pytest.mark.parametrize(
    "data",
    [
        answer(finish="content_filter"),
        answer(refusal="I cannot help with that."),
        b'{"error": {"code": "content_filter", "message": "no"}}',
    ],
)
def test_a_refusal_is_final(data):
    assert isinstance(failure_of(data).error, ModelRefusedError)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"<html>502</html>",
        b"[]",
        b"null",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"choices": []}',
        b'{"choices": null}',
        b'{"choices": [{"message": null, "finish_reason": "stop"}]}',
        b'{"choices": [{"finish_reason": "stop"}]}',
        answer(finish=None),
        answer(finish="error"),
        answer(content=7),
        b'{"error": "overloaded"}',
        b'{"error": {"message": "busy", "code": 529}}',
        b'{"error": {"message": "busy", "code": 429}, "choices": null}',
    ],
)
def test_what_is_no_whole_answer_may_be_tried_again(data):
    assert isinstance(failure_of(data).error, ModelUnavailableError)


@pytest.mark.parametrize("code", [400, "401", "insufficient_quota"])
def test_an_error_inside_a_200_that_is_final_stays_final(code):
    data = json.dumps({"error": {"message": "no", "code": code}}).encode()

    assert isinstance(failure_of(data).error, ModelRequestError)
