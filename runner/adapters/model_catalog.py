"""Finds models over HTTP; scripts are served by a server of ours, started when first needed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from types import TracebackType
from typing import Self

from runner.adapters.openai_chat import (
    ChatProvider,
    OpenAiChatModel,
    Surroundings,
    find_chat_renderer,
    make_client,
)
from runner.adapters.script_server import ScriptServer
from runner.application.ports.clock import Clock, Entropy
from runner.application.ports.model import Model, Renderer
from runner.domain.script import parse_script
from runner.domain.task import AgentKind, AgentSpec
from runner.errors import MissingError


class HttpModelCatalog:
    """Implements ModelCatalog. One client and one script server for the process; thread-safe."""

    def __init__(
        self, *, clock: Clock, entropy: Entropy, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._clock = clock
        self._entropy = entropy
        self._sleep = sleep
        self._open = ExitStack()
        self._lock = threading.Lock()
        self._server: ScriptServer | None = None
        self._surroundings: Surroundings | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with self._lock:
            self._server = self._surroundings = None
            self._open.close()

    @property
    def received_digests(self) -> tuple[str, ...]:
        """`sha256:…` of the request bodies that the script server received."""
        with self._lock:
            return self._server.received_digests if self._server else ()

    def find_renderer(self, adapter: str, renderer: int) -> Renderer | None:
        """Return the renderer of a past request, or None when this release has it no more."""
        return find_chat_renderer(adapter, renderer)

    def find_model(self, agent: AgentSpec) -> Model:
        """Return the model that does the agent's thinking.

        Raises:
            MissingError: this release has no such agents.
            ScriptError: the agent's script cannot be played.
        """
        if agent.kind is not AgentKind.SCRIPTED:
            raise MissingError(
                f"agents of kind {agent.kind.value!r} are not in this release; "
                f"use kind {AgentKind.SCRIPTED.value!r}"
            )
        script = parse_script(agent.script)
        server, surroundings = self._start()
        provider = ChatProvider(base_url=server.base_url)
        return OpenAiChatModel(server.add_script(script), provider, surroundings)

    def _start(self) -> tuple[ScriptServer, Surroundings]:
        with self._lock:
            if self._server is None or self._surroundings is None:
                self._server = self._open.enter_context(ScriptServer())
                client = self._open.enter_context(make_client())
                self._surroundings = Surroundings(
                    client=client, clock=self._clock, entropy=self._entropy, sleep=self._sleep
                )
            return self._server, self._surroundings
