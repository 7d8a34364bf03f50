"""A double of Model that plays a script in this process: no HTTP, no waiting."""

from __future__ import annotations

from collections import deque

from policies import digest_bytes
from runner.adapters.openai_chat import RENDERER, ChatDialect, read_reply, render_chat
from runner.adapters.script_server import answer_chat
from runner.application.ports.model import Capabilities
from runner.domain.calls import ModelReply, ModelRequest
from runner.domain.script import Script
from runner.errors import ModelRequestError

KEPT_DIGESTS = 10_000


class ScriptedModel:
    """Implements Model; renders as OpenAiChatModel does and answers as ScriptServer does."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._dialect = ChatDialect()
        self._digests: deque[str] = deque(maxlen=KEPT_DIGESTS)

    @property
    def name(self) -> str:
        """The model's name as request bodies carry it."""
        return self._script.model_name

    @property
    def adapter(self) -> str:
        """Stable name of the wire format."""
        return self._dialect.adapter

    @property
    def renderer(self) -> int:
        """Version of `render`."""
        return RENDERER

    @property
    def capabilities(self) -> Capabilities:
        """What this model can do."""
        return Capabilities(tool_calls=True, parallel_calls=True)

    @property
    def received_digests(self) -> tuple[str, ...]:
        """`sha256:…` of the bodies received, oldest first."""
        return tuple(self._digests)

    def render(self, request: ModelRequest) -> bytes:
        """Return the exact request body.

        Raises:
            CanonicalFormError: a tool's schema holds a number with a fraction.
        """
        return render_chat(request, self._dialect)

    def complete(self, body: bytes, *, deadline_seconds: float) -> ModelReply:  # noqa: ARG002  nothing takes time
        """Return the reply that the script has for this body.

        Raises:
            ModelRequestError: the body breaks a rule of the wire format.
        """
        self._digests.append(digest_bytes(body))
        answer = answer_chat(body, {self.name: self._script})
        reply = read_reply(answer.body, sent=body)
        if isinstance(reply, ModelReply):
            return reply
        raise ModelRequestError(f"{answer.status}: {reply.error}")
