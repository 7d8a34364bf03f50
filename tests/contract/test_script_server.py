import http.client
import json
import threading
from urllib.parse import urlsplit

import httpx
import pytest

from policies import digest_bytes
from runner.adapters.script_server import ScriptServer
from runner.domain.script import parse_script

SCRIPT = parse_script(
    '{"replies": [{"text": "one", "calls": [{"tool": "shell"}]}, {"text": "two"}]}'
)
USER = {"role": "user", "content": "go"}
SYSTEM = {"role": "system", "content": "be good"}


@pytest.fixture(scope="module")
def server():
    with ScriptServer() as running:
        running.add_script(SCRIPT)
        yield running


@pytest.fixture(scope="module")
def client(server):
    with httpx.Client(base_url=server.base_url, trust_env=False) as opened:
        yield opened


def wire_call(call_id="call_1", name="shell", arguments="{}"):
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def said(*calls, text=None):
    message = {"role": "assistant", "content": text}
    return {**message, "tool_calls": list(calls)} if calls else message


def result(call_id="call_1", text="done"):
    return {"role": "tool", "tool_call_id": call_id, "content": text}


def tool(name="shell", **parameters):
    schema = {"type": "object", "properties": {}, **parameters}
    return {"type": "function", "function": {"name": name, "parameters": schema}}


def post(client, *messages, **changed):
    body = {"model": SCRIPT.model_name, "messages": list(messages), **changed}
    return client.post("chat/completions", json=body)


def test_a_whole_conversation_is_taken_and_the_script_played(client):
    first = post(client, SYSTEM, USER, tools=[tool()], max_tokens=10)
    second = post(client, SYSTEM, USER, said(wire_call()), result())
    third = post(client, SYSTEM, USER, said(wire_call()), result(), said(text="two"), USER)

    assert [one.status_code for one in (first, second, third)] == [200] * 3
    choice = first.json()["choices"][0]
    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"]["tool_calls"][0]["function"]["arguments"] == "{}"
    assert second.json()["choices"][0]["message"]["content"] == "two"
    assert "used up" in third.json()["choices"][0]["message"]["content"]


def test_parallel_calls_may_be_answered_in_any_order(client):
    calls = said(wire_call("a"), wire_call("b"))

    assert post(client, USER, calls, result("b"), result("a")).status_code == 200


@pytest.mark.parametrize(
    ("messages", "told"),
    [
        ([], "at least 1 item"),
        ([SYSTEM], "must be a user's"),
        ([USER, SYSTEM], "A system message may only be the first"),
        ([SYSTEM, SYSTEM, USER], "must be a user's"),
        ([said(text="hi"), USER], "must be a user's"),
        ([USER, USER], "two user messages in a row"),
        ([USER, said(text="a"), said(text="b")], "two assistant messages in a row"),
        ([USER, said()], "without calls needs text"),
        ([USER, said(text=""), USER], "must not be blank"),
        ([USER, said(wire_call(), text=" "), result()], "must not be blank"),
        ([{"role": "user", "content": " \n"}], "must not be blank"),
        ([{"role": "user", "content": None}], "valid string"),
        ([{"role": "user", "content": 7}], "valid string"),
        ([{"role": "user", "content": []}], "at least 1 item"),
        ([{"role": "user", "content": [{"type": "text", "text": ""}]}], "must not be blank"),
        ([{"role": "user", "content": [{"type": "image_url"}]}], "'text'"),
        ([{"role": "person", "content": "x"}], "role"),
        ([{"role": "user"}], "Field required"),
        ([{**USER, "cache": 1}], "not permitted"),
        ([USER, said(wire_call())], "without a tool message: call_1"),
        ([USER, said(wire_call()), USER], "without a tool message: call_1"),
        ([USER, said(wire_call("a"), wire_call("b")), result("a")], "without a tool message: b"),
        ([USER, result()], "must answer one open call"),
        ([USER, said(wire_call()), result(), result()], "must answer one open call"),
        ([USER, said(wire_call()), result("call_2")], "must answer one open call"),
        ([USER, said(wire_call()), result(), USER, result()], "must answer one open call"),
        ([USER, said(wire_call(), wire_call()), result()], "ids must be unique"),
        (
            [USER, said(wire_call()), result(), said(wire_call()), result()],
            "ids must be unique",
        ),
        ([USER, said(wire_call("")), result("")], "pattern"),
        ([USER, said(wire_call("x" * 41)), result("x" * 41)], "pattern"),
        ([USER, said(wire_call("a b")), result("a b")], "pattern"),
        ([USER, said(wire_call(name="no such")), result()], "pattern"),
        ([USER, said(wire_call(name="")), result()], "pattern"),
        ([USER, said(wire_call(arguments={})), result()], "valid string"),
        ([USER, said(wire_call(arguments="")), result()], "text of a JSON object"),
        ([USER, said(wire_call(arguments="[1]")), result()], "text of a JSON object"),
        ([USER, said(wire_call(arguments='"{}"')), result()], "text of a JSON object"),
        ([USER, said(wire_call(arguments='{"a')), result()], "text of a JSON object"),
        ([USER, said(wire_call()), result(text="")], "must not be blank"),
    ],
)
def test_a_conversation_that_a_provider_refuses_is_refused_in_its_form(client, messages, told):
    answer = post(client, *messages)

    assert answer.status_code == 400
    error = answer.json()["error"]
    assert told in error["message"]
    assert error["type"] == "invalid_request_error"


@pytest.mark.parametrize(
    ("changed", "status", "told"),
    [
        ({"model": "gpt"}, 404, "does not exist"),
        ({"model": ""}, 400, "at least 1 character"),
        ({"stream": True}, 400, "Streaming"),
        ({"tools": []}, 400, "at least 1 item"),
        ({"tools": [tool(), tool()]}, 400, "unique"),
        ({"tools": [tool("a b")]}, 400, "pattern"),
        ({"tools": [tool(type="array")]}, 400, "object"),
        ({"tools": [{"type": "code"}]}, 400, "function"),
        ({"tools": [{"name": "shell"}]}, 400, "Field required"),
        ({"tool_choice": "auto"}, 400, "only allowed when"),
        ({"max_tokens": 0}, 400, "greater than or equal to 1"),
        ({"max_tokens": "9"}, 400, "valid integer"),
        ({"max_tokens": 9, "max_completion_tokens": 9}, 400, "exclude each other"),
        ({"temperature": 3}, 400, "less than or equal to 2"),
        ({"reasoning": "high"}, 400, "not permitted"),
    ],
)
def test_a_request_that_a_provider_refuses_is_refused(client, changed, status, told):
    answer = post(client, USER, **changed)

    assert answer.status_code == status
    assert told in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"\xff",
        b"[" * 100_000,
        b'{"model": "m", "messages": [{"role": "user", "content": "\\ud800"}]}',
        b'{"model": "m", "temperature": NaN}',
        b"[]",
    ],
)
def test_a_body_that_is_not_utf8_json_is_refused(client, body):
    answer = client.post(
        "chat/completions", content=body, headers={"Content-Type": "application/json"}
    )

    assert answer.status_code == 400


def test_other_paths_methods_and_types_are_refused(client):
    assert client.post("embeddings", json={}).status_code == 404
    assert client.get("chat/completions").status_code == 405
    assert client.post("chat/completions", content=b"{}").status_code == 400


def test_a_body_without_a_length_or_with_too_much_of_it_is_refused_unread(server):
    place = urlsplit(server.base_url)

    for header, status in [
        ({"Transfer-Encoding": "chunked"}, 411),
        ({"Content-Length": "9" * 12}, 413),
    ]:
        connection = http.client.HTTPConnection(place.hostname, place.port, timeout=10)
        connection.request("POST", "/v1/chat/completions", headers=header)
        assert connection.getresponse().status == status
        connection.close()


def test_every_body_is_recorded_by_its_digest_also_a_refused_one():
    with ScriptServer() as server, httpx.Client(base_url=server.base_url) as client:
        headers = {"Content-Type": "application/json"}
        for body in (b"{}", b"[1]"):
            client.post("chat/completions", content=body, headers=headers)

        assert server.received_digests == (digest_bytes(b"{}"), digest_bytes(b"[1]"))


def test_a_connection_serves_many_requests(server):
    place = urlsplit(server.base_url)
    body = json.dumps({"model": SCRIPT.model_name, "messages": [USER]})
    connection = http.client.HTTPConnection(place.hostname, place.port, timeout=10)
    connection.connect()
    port = connection.sock.getsockname()

    for _ in range(3):
        connection.request(
            "POST", "/v1/chat/completions", body, {"Content-Type": "application/json"}
        )
        assert connection.getresponse().read()

    assert connection.sock.getsockname() == port
    connection.close()


def test_it_listens_on_loopback_alone_and_stops_listening_at_the_end(capfd):
    before = threading.enumerate()

    with ScriptServer() as server:
        place = urlsplit(server.base_url)
        with httpx.Client(trust_env=False) as client:
            client.get(server.base_url)
    with pytest.raises(ConnectionRefusedError):
        http.client.HTTPConnection(place.hostname, place.port, timeout=1).connect()

    assert place.hostname == "127.0.0.1"
    assert set(threading.enumerate()) <= set(before)
    assert capfd.readouterr() == ("", "")


def test_outside_its_context_it_has_no_address():
    with pytest.raises(RuntimeError, match="not running"):
        _ = ScriptServer().base_url
