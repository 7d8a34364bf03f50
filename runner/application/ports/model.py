"""Port: a provider's model. Rendering is pure, sending is not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from runner.domain.calls import ModelReply, ModelRequest
from runner.domain.task import AgentSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What a model can do; checked before a run starts."""

    tool_calls: bool
    structured_output: bool = False
    streaming: bool = False
    parallel_calls: bool = False
    reasoning_state: bool = False
    token_counting: bool = False
    context_tokens: int = 128_000


class Model(Protocol):
    """One model of one provider. Thread-safe."""

    @property
    def name(self) -> str:
        """The model's name as request bodies carry it."""
        ...

    @property
    def adapter(self) -> str:
        """Stable name of the wire format, `openai_chat`."""
        ...

    @property
    def renderer(self) -> int:
        """Version of `render`; an older one is kept as long as rollouts name it."""
        ...

    @property
    def capabilities(self) -> Capabilities:
        """What this model can do."""
        ...

    def render(self, request: ModelRequest) -> bytes:
        """Return the exact request body; the same request gives the same bytes."""
        ...

    def complete(self, body: bytes, *, deadline_seconds: float) -> ModelReply:
        """Send a rendered body and return the whole answer.

        Raises:
            ModelUnavailableError: no whole answer within the deadline, retries included.
            ModelRefusedError: the model declined; final.
            ModelRequestError: the provider rejects the request; final.
        """
        ...


class Renderer(Protocol):
    """Turns requests into bodies the way one version of one adapter did."""

    def render(self, request: ModelRequest) -> bytes:
        """Return the exact request body."""
        ...


class ModelCatalog(Protocol):
    """Finds the model that an agent names, and every renderer that rollouts may name."""

    def find_renderer(self, adapter: str, renderer: int) -> Renderer | None:
        """Return the renderer of a past request, or None when this release has it no more."""
        ...

    def find_model(self, agent: AgentSpec) -> Model:
        """Return the model that does the agent's thinking.

        Raises:
            MissingError: the provider is unknown or lacks its key.
        """
        ...
