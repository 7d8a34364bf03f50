"""A model behind the Chat Completions format."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import httpx

from runner.adapters.openai_chat.deadline import ReadDeadline
from runner.adapters.openai_chat.dialect import ChatDialect
from runner.adapters.openai_chat.failures import (
    FOREIGN,
    Failure,
    status_failure,
    translate,
    unusable,
    without_key,
)
from runner.adapters.openai_chat.render import RENDERER, render_chat
from runner.adapters.openai_chat.reply import read_reply
from runner.adapters.openai_chat.retry import RetryPolicy, parse_retry_after
from runner.application.ports.clock import Clock, Entropy
from runner.application.ports.model import Capabilities
from runner.domain.calls import ModelReply, ModelRequest
from runner.errors import ModelRequestError, ModelUnavailableError

ATTEMPT_SECONDS = 600.0
"""Longest single attempt, whatever the deadline; sockets take no limit of years either."""

CONNECT_SECONDS = 10.0

ANSWER_BYTES = 32 * 1024 * 1024
"""Longer answers are given up: no model writes that much."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What sending needs beside the profile; shared by the models of one process."""

    client: httpx.Client
    clock: Clock
    entropy: Entropy
    sleep: Callable[[float], None] = time.sleep
    retry: RetryPolicy = field(default_factory=RetryPolicy)


def no_key() -> str:
    """Return no key: for servers that need none."""
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatProvider:
    """Where a model is and how it is spoken to."""

    base_url: str
    """With the version, without a slash at the end: `https://host/v1`."""
    dialect: ChatDialect = field(default_factory=ChatDialect)
    capabilities: Capabilities = field(
        default_factory=lambda: Capabilities(tool_calls=True, parallel_calls=True)
    )
    api_key: Callable[[], str] = no_key
    """Asked before each attempt; never kept."""


class OpenAiChatModel:
    """Implements Model through httpx. Thread-safe: it keeps nothing between calls."""

    def __init__(
        self,
        name: str,
        provider: ChatProvider,
        surroundings: Surroundings,
    ) -> None:
        self._name = name
        self._provider = provider
        self._around = surroundings

    @property
    def name(self) -> str:
        """The model's name as request bodies carry it."""
        return self._name

    @property
    def adapter(self) -> str:
        """Stable name of the wire format with its dialect."""
        return self._provider.dialect.adapter

    @property
    def renderer(self) -> int:
        """Version of `render`."""
        return RENDERER

    @property
    def capabilities(self) -> Capabilities:
        """What this model can do."""
        return self._provider.capabilities

    def render(self, request: ModelRequest) -> bytes:
        """Return the exact request body.

        Raises:
            CanonicalFormError: a tool's schema holds a number with a fraction.
        """
        return render_chat(request, self._provider.dialect)

    def complete(self, body: bytes, *, deadline_seconds: float) -> ModelReply:
        """Send exactly these bytes and return the whole answer.

        Raises:
            ModelUnavailableError: no whole answer within the deadline, retries included.
            ModelRefusedError: the model declined; final.
            ModelRequestError: the provider rejects the request; final.
        """
        ends_at = self._around.clock.monotonic() + deadline_seconds
        attempt = 0
        while True:
            attempt += 1
            outcome = self._attempt(body, seconds=ends_at - self._around.clock.monotonic())
            if isinstance(outcome, ModelReply):
                return outcome
            if not isinstance(outcome.error, ModelUnavailableError):
                raise outcome.error
            wait = self._wait_seconds(attempt, outcome)
            if attempt >= self._around.retry.attempts:
                raise _give_up(outcome, f"after {attempt} attempts")
            if self._around.clock.monotonic() + wait >= ends_at:
                raise _give_up(outcome, f"within {deadline_seconds:.0f} s")
            self._around.sleep(wait)

    def _wait_seconds(self, attempt: int, failure: Failure) -> float:
        chance = self._around.entropy.random_bytes(1)[0] / 255
        asked = parse_retry_after(failure.retry_after, now=self._around.clock.now())
        return self._around.retry.delay_seconds(attempt, asked=asked, chance=chance)

    def _attempt(self, body: bytes, *, seconds: float) -> ModelReply | Failure:
        seconds = min(max(seconds, 0.001), ATTEMPT_SECONDS)
        key = self._provider.api_key().strip()
        request = self._make_request(body, key=key, seconds=seconds)
        try:
            outcome = self._exchange(request, body, seconds=seconds)
        except FOREIGN as error:
            outcome = Failure(translate(error))
            outcome.error.__cause__ = error
        return outcome if isinstance(outcome, ModelReply) else without_key(outcome, key)

    def _make_request(self, body: bytes, *, key: str, seconds: float) -> httpx.Request:
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if key:
            headers["Authorization"] = f"Bearer {_check_key(key)}"
        url = f"{self._provider.base_url}/chat/completions"
        timeout = httpx.Timeout(seconds, connect=min(seconds, CONNECT_SECONDS))
        return self._around.client.build_request(
            "POST", url, content=body, headers=headers, timeout=timeout
        )

    def _exchange(
        self, request: httpx.Request, body: bytes, *, seconds: float
    ) -> ModelReply | Failure:
        started = self._around.clock.monotonic()
        response = self._around.client.send(request, stream=True, follow_redirects=False)
        try:
            left = max(seconds - (self._around.clock.monotonic() - started), 0.001)
            with ReadDeadline(response, left):
                data = _read_capped(response)
        finally:
            response.close()
        if len(data) > ANSWER_BYTES:
            return unusable(f"the answer is longer than {ANSWER_BYTES} bytes", data[:1000])
        if not response.is_success:
            retry_after = response.headers.get("Retry-After", "")
            return status_failure(response.status_code, data, retry_after=retry_after)
        return read_reply(data, sent=body)


def _read_capped(response: httpx.Response) -> bytes:
    """Read an answer, and at most one chunk more than is allowed."""
    data = bytearray()
    for chunk in response.iter_bytes():
        data += chunk
        if len(data) > ANSWER_BYTES:
            break
    return bytes(data)


def _check_key(key: str) -> str:
    if not key.isascii() or not key.isprintable() or " " in key:
        raise ModelRequestError("the provider's key holds characters that no key has")
    return key


def _give_up(failure: Failure, when: str) -> ModelUnavailableError:
    error = ModelUnavailableError(f"{failure.error}; given up {when}")
    error.__cause__ = failure.error
    return error
