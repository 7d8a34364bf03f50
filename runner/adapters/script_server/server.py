"""A strict model server on loopback that plays scripts in a provider's wire format.

It keeps no state about conversations: which reply is due follows from the request alone, so any
number of tasks may play the same script at once, and a repeated request gets the same answer.
"""

from __future__ import annotations

import socket
import sys
import threading
from collections import deque
from collections.abc import Mapping
from functools import partial
from http.server import ThreadingHTTPServer
from types import TracebackType
from typing import Self

from policies import digest_bytes
from runner.adapters.script_server.chat_reply import HttpAnswer, answer_chat
from runner.adapters.script_server.handler import Handler, Route
from runner.domain.script import Script

CHAT_PATH = "/v1/chat/completions"
LOOPBACK = "127.0.0.1"
POLL_SECONDS = 0.1
"""How soon the accepting thread notices the end."""
STOP_SECONDS = 0.5
"""How long the end waits for connections to close."""
KEPT_DIGESTS = 10_000


class ScriptServer:
    """Serves from entering its context to leaving it; a port is chosen by the kernel."""

    def __init__(self) -> None:
        self._scripts: dict[str, Script] = {}
        self._digests: deque[str] = deque(maxlen=KEPT_DIGESTS)
        self._listener: _Listener | None = None
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        listener = _Listener({CHAT_PATH: self._answer_chat})
        thread = threading.Thread(
            target=listener.serve_forever, args=(POLL_SECONDS,), name="script-server", daemon=True
        )
        self._listener, self._thread = listener, thread
        thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        listener, thread = self._listener, self._thread
        self._listener = self._thread = None
        if listener is not None and thread is not None:
            listener.shutdown()
            listener.close_all()
            thread.join()

    @property
    def base_url(self) -> str:
        """Where the API is, without a slash at the end.

        Raises:
            RuntimeError: the server is not running.
        """
        if self._listener is None:
            raise RuntimeError("the script server is not running")
        return f"http://{LOOPBACK}:{self._listener.server_port}/v1"

    @property
    def received_digests(self) -> tuple[str, ...]:
        """`sha256:…` of the request bodies received, oldest first, at most the last 10,000."""
        return tuple(self._digests)

    def add_script(self, script: Script) -> str:
        """Serve a script; the same one again changes nothing.

        Returns:
            The model name to ask for.
        """
        self._scripts[script.model_name] = script
        return script.model_name

    def _answer_chat(self, body: bytes) -> HttpAnswer:
        self._digests.append(digest_bytes(body))
        return answer_chat(body, self._scripts)


class _Listener(ThreadingHTTPServer):
    """Knows its open connections, so that an end does not wait for idle clients."""

    daemon_threads = True
    request_queue_size = 128
    """Clients that may connect at the same instant."""

    def __init__(self, routes: Mapping[str, Route]) -> None:
        self._open: set[socket.socket] = set()
        self._changed = threading.Condition()
        super().__init__((LOOPBACK, 0), partial(Handler, routes))

    def process_request(self, request: socket.socket, client_address: tuple[str, int]) -> None:  # type: ignore[override]  # typeshed allows datagrams too
        with self._changed:
            self._open.add(request)
        super().process_request(request, client_address)

    def close_request(self, request: socket.socket) -> None:  # type: ignore[override]  # as above
        super().close_request(request)
        with self._changed:
            self._open.discard(request)
            self._changed.notify_all()

    def handle_error(self, request: object, client_address: object) -> None:
        """Let a client go that went away; anything else is a bug and is printed."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]  # passed on

    def close_all(self) -> None:
        """Close the port, end every connection and wait a moment until they are gone."""
        self.server_close()
        with self._changed:
            for one in self._open:
                _end(one)
            self._changed.wait_for(lambda: not self._open, timeout=STOP_SECONDS)


def _end(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:  # the client was faster
        return
