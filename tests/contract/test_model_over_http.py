"""The OpenAI-compatible adapter against answers that only HTTP can give."""

import json
import socket
import threading
import time
from contextlib import contextmanager

import httpx
import pytest

from runner.adapters.fixed_clock import FixedClock, FixedEntropy
from runner.adapters.openai_chat import ChatProvider, OpenAiChatModel, RetryPolicy, Surroundings
from runner.adapters.system_clock import SystemClock
from runner.domain.calls import ModelReply
from runner.errors import ModelError, ModelRefusedError, ModelRequestError, ModelUnavailableError

OK = {"choices": [{"message": {"content": "fine"}, "finish_reason": "stop"}]}
KEY = "sk-canary-8461"


class Provider:
    """Plays a list of answers and remembers the requests; the last answer repeats."""

    def __init__(self, *answers) -> None:
        self.answers = list(answers)
        self.requests: list[httpx.Request] = []
        self.clock = FixedClock()
        self.slept: list[float] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.clock.advance(seconds)

    @contextmanager
    def open_model(self, key: str = ""):
        with httpx.Client(transport=httpx.MockTransport(self)) as client:
            around = Surroundings(
                client=client, clock=self.clock, entropy=FixedEntropy(), sleep=self.sleep
            )
            provider = ChatProvider(base_url="http://models.test/v1", api_key=lambda: key)
            yield OpenAiChatModel("m", provider, around)

    def ask(self, *, key: str = "", deadline_seconds: float = 300) -> ModelReply:
        with self.open_model(key) as model:
            return model.complete(b'{"max_tokens":9}', deadline_seconds=deadline_seconds)


def ok() -> httpx.Response:
    return httpx.Response(200, json=OK)


def busy(status: int = 429, **headers: str) -> httpx.Response:
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    return httpx.Response(status, json={"error": {"message": "busy"}}, headers=sent)


def test_exactly_the_given_bytes_are_posted_with_the_key():
    provider = Provider(ok())

    provider.ask(key=f" {KEY}\n")

    sent = provider.requests[0]
    assert (sent.method, str(sent.url)) == ("POST", "http://models.test/v1/chat/completions")
    assert sent.content == b'{"max_tokens":9}'
    assert sent.headers["Authorization"] == f"Bearer {KEY}"


def test_without_a_key_no_authorization_is_sent():
    provider = Provider(ok())

    provider.ask()

    assert "Authorization" not in provider.requests[0].headers


@pytest.mark.parametrize(
    "passing",
    [
        busy(429),
        busy(408),
        busy(529),
        httpx.Response(502, html="<html>bad gateway</html>"),
        httpx.Response(200, html="<html>login</html>"),
        httpx.Response(200, json={"choices": []}),
        httpx.Response(200, json={"error": {"message": "overloaded"}}),
        httpx.ConnectError("refused"),
        httpx.ReadTimeout("slow"),
        httpx.RemoteProtocolError("cut"),
    ],
)
def test_what_may_pass_is_tried_again_after_a_pause(passing):
    provider = Provider(passing, passing, ok())

    assert provider.ask().text == "fine"
    assert len(provider.slept) == 2
    assert provider.slept[0] < provider.slept[1] < 2


def test_attempts_are_bounded_and_the_last_problem_is_told():
    provider = Provider(busy(503))

    with pytest.raises(ModelUnavailableError, match="503: busy; given up after 6 attempts"):
        provider.ask()

    assert len(provider.requests) == 6


def test_the_pause_is_at_least_what_the_provider_asks_in_either_form_and_capped():
    provider = Provider(
        busy(retry_after="7"),
        busy(retry_after="Mon, 30 Nov 2026 10:37:30 GMT"),
        busy(retry_after="999999"),
        ok(),
    )

    provider.ask()

    assert 7 <= provider.slept[0] < 8
    assert 53 - provider.slept[0] <= provider.slept[1] < 54
    assert 120 <= provider.slept[2] < 123


def test_a_pause_beyond_the_deadline_is_not_begun():
    provider = Provider(busy(retry_after="60"))

    with pytest.raises(ModelUnavailableError, match="given up within 30 s"):
        provider.ask(deadline_seconds=30)

    assert provider.slept == []
    assert len(provider.requests) == 1


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (busy(400), ModelRequestError),
        (busy(401), ModelRequestError),
        (httpx.Response(302, headers={"Location": "http://elsewhere.test/"}), ModelRequestError),
        (
            httpx.Response(
                200, json={"choices": [{"message": {"refusal": "no"}, "finish_reason": "stop"}]}
            ),
            ModelRefusedError,
        ),
    ],
)
def test_what_is_final_is_not_tried_again(answer, error):
    provider = Provider(answer)

    with pytest.raises(error):
        provider.ask()

    assert len(provider.requests) == 1


@pytest.mark.parametrize(
    "answer",
    [
        httpx.Response(401, json={"error": {"message": f"unknown key {KEY}"}}),
        httpx.Response(500, text=f"debug: Authorization: Bearer {KEY}"),
        httpx.LocalProtocolError(f"Illegal header value b'Bearer {KEY}'"),
        httpx.ConnectError(f"proxy said {KEY}"),
    ],
)
def test_a_key_is_in_no_error(answer):
    with pytest.raises(ModelError) as raised:
        Provider(answer).ask(key=KEY)

    assert KEY not in str(raised.value)


@pytest.mark.parametrize("key", ["sk-a\nb", "sk-ü", "sk a"])
def test_a_key_that_no_header_can_carry_is_refused_without_being_told(key):
    provider = Provider(ok())

    with pytest.raises(ModelRequestError, match="characters that no key has") as raised:
        provider.ask(key=key)

    assert key not in str(raised.value)
    assert provider.requests == []


def test_an_answer_that_is_too_long_is_given_up():
    provider = Provider(httpx.Response(200, content=b" " * (33 * 1024 * 1024)))

    with pytest.raises(ModelUnavailableError, match="longer than"):
        provider.ask(deadline_seconds=0.1)


def take_request(connection: socket.socket) -> None:
    # whole: closing with unread bytes resets the connection, and the answer with it
    with connection.makefile("rb") as stream:
        length = 0
        while line := stream.readline().strip():
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        stream.read(length)


@contextmanager
def raw_server(*chunks: bytes, pause_seconds: float = 0.0, repeat_last: bool = False):
    """Answer each connection with these bytes, whatever is asked, then close it."""
    listener = socket.create_server(("127.0.0.1", 0))
    over = threading.Event()

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                take_request(connection)
                send(connection)

    def send(connection: socket.socket) -> None:
        pieces = list(chunks)
        while pieces and not over.is_set():
            piece = pieces.pop(0)
            try:
                connection.sendall(piece)
            except OSError:
                return
            if repeat_last and not pieces:
                pieces.append(piece)
            over.wait(pause_seconds)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
    finally:
        over.set()
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


def ask_raw(url: str, *, deadline_seconds: float) -> ModelReply:
    with httpx.Client(trust_env=False) as client:
        around = Surroundings(
            client=client,
            clock=SystemClock(),
            entropy=FixedEntropy(),
            retry=RetryPolicy(attempts=2, first_seconds=0.01),
        )
        model = OpenAiChatModel("m", ChatProvider(base_url=url), around)
        return model.complete(b"{}", deadline_seconds=deadline_seconds)


HEADERS = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"


def test_an_answer_in_pieces_is_put_together():
    body = json.dumps(OK).encode()

    with raw_server(HEADERS % len(body), body[:9], body[9:]) as url:
        assert ask_raw(url, deadline_seconds=10).text == "fine"


@pytest.mark.parametrize("cut", [0, 5, 20])
def test_an_answer_that_is_cut_is_no_answer(cut):
    body = json.dumps(OK).encode()

    with raw_server(HEADERS % len(body), body[:cut]) as url, pytest.raises(ModelUnavailableError):
        ask_raw(url, deadline_seconds=10)


def test_an_answer_that_only_drips_ends_at_the_deadline():
    with raw_server(HEADERS % 1000, b" ", pause_seconds=0.05, repeat_last=True) as url:
        began = time.monotonic()
        with pytest.raises(ModelUnavailableError, match="given up"):
            ask_raw(url, deadline_seconds=0.4)

    assert 0.3 < time.monotonic() - began < 2


def test_silence_ends_at_the_deadline():
    with raw_server(b"", pause_seconds=30) as url:
        began = time.monotonic()
        with pytest.raises(ModelUnavailableError, match="given up"):
            ask_raw(url, deadline_seconds=0.4)

        assert time.monotonic() - began < 2


def test_a_server_that_is_not_there_is_unavailable():
    with pytest.raises(ModelUnavailableError, match="ConnectError"):
        ask_raw("http://127.0.0.1:1/v1", deadline_seconds=10)
