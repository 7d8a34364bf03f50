"""HTTP around the pure answer: one request at a time on a connection that stays open."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler
from socketserver import BaseServer

from policies import canonical_json
from runner.adapters.script_server.chat_reply import HttpAnswer
from runner.adapters.script_server.problem import RequestProblemError

MAX_BODY_BYTES = 64 * 1024 * 1024
"""Longer bodies are refused unread."""

Route = Callable[[bytes], HttpAnswer]
"""Answers the body of a POST."""


class Handler(BaseHTTPRequestHandler):
    """One connection: answers POST on its routes and refuses all else in the provider's form."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1  # headers and body leave in one packet

    def __init__(
        self,
        routes: Mapping[str, Route],
        request: socket.socket,
        client_address: tuple[str, int],
        server: BaseServer,
    ) -> None:
        self._routes = routes
        super().__init__(request, client_address, server)  # serves the connection to its end

    def do_POST(self) -> None:
        """Answer one request."""
        try:
            answer = self._answer()
        except RequestProblemError as problem:
            self.close_connection = True  # the body was not read
            answer = HttpAnswer(problem.status, canonical_json(problem.to_json()))
        self._send(answer)

    def do_GET(self) -> None:
        """Refuse."""
        problem = RequestProblemError("Only POST is served.", status=405)
        self._send(HttpAnswer(problem.status, canonical_json(problem.to_json())))

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  inherited name
        """Stay quiet: requests are counted, not printed."""

    def _answer(self) -> HttpAnswer:
        length = self._body_bytes()
        route = self._routes.get(self.path)
        if route is None:
            raise RequestProblemError(f"Unknown path {self.path!r}.", status=404)
        if self.headers.get_content_type() != "application/json":
            raise RequestProblemError("Content-Type must be application/json.")
        return route(self.rfile.read(length))

    def _body_bytes(self) -> int:
        text = self.headers.get("Content-Length", "")
        if not text.isascii() or not text.isdigit():
            raise RequestProblemError("Content-Length is needed.", status=411)
        if int(text) > MAX_BODY_BYTES:
            raise RequestProblemError("The body is too large.", status=413)
        return int(text)

    def _send(self, answer: HttpAnswer) -> None:
        self.send_response(answer.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer.body)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(answer.body)
