"""A proxy in front of the engine's socket that fails as engines fail: on order and on time.

One request for each connection: it reads a request, asks its rules, passes it on, and hands the
answer back whole; a command's stream is copied both ways. Nothing of the engine is touched.
"""

from __future__ import annotations

import json
import re
import socket
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

ENGINE_SOCKET = "/var/run/docker.sock"

_CHUNK = 65536
_VERSION = re.compile(r"^/v[0-9.]+")


@dataclass(slots=True)
class _Rule:
    """What happens to the next requests of a kind."""

    wanted: re.Pattern[str]
    """Matched against `METHOD /path?query`, without the version."""
    times: int
    status: int = 0
    """A made answer; 0 = the engine's own."""
    body: Mapping[str, object] = field(default_factory=dict)
    drop_answer: bool = False
    """The engine does it, and nobody hears of it."""
    wait: threading.Event | None = None
    """Nothing is passed on before it is set."""
    then: Callable[[], object] = field(default=lambda: None)
    """Called once the engine has answered, before anybody hears of it."""


class EngineProxy:
    """A socket that stands for the engine. A context manager."""

    def __init__(self, path: Path, *, engine: str = ENGINE_SOCKET) -> None:
        """Say where to listen; nothing is opened yet.

        Args:
            path: of the socket to make.
            engine: path of the real one.
        """
        self._path = path
        self._engine = engine
        self._rules: list[_Rule] = []
        self._open: set[socket.socket] = set()
        self._listener: socket.socket | None = None
        self._lock = threading.Lock()
        self.requests: list[str] = []
        """`METHOD /path` of everything that was asked, without version and query."""

    @property
    def url(self) -> str:
        """What to connect to."""
        return f"unix://{self._path}"

    def __enter__(self) -> Self:
        self.up()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.down()

    def up(self) -> None:
        """Listen."""
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self._path))
        self._listener.listen(64)
        threading.Thread(target=self._accept, args=[self._listener], daemon=True).start()

    def down(self) -> None:
        """Cut every connection and accept none, as an engine that has died."""
        with self._lock:
            cut, self._open = self._open, set()
            listener, self._listener = self._listener, None
        self._path.unlink(missing_ok=True)
        for one in (*cut, *filter(None, [listener])):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def answer(self, wanted: str, status: int, message: str, *, times: int = 1) -> None:
        """Answer the next requests of a kind ourselves; the engine never hears of them."""
        self.answer_with(wanted, status, {"message": message}, times=times)

    def answer_with(
        self, wanted: str, status: int, body: Mapping[str, object], *, times: int = 1
    ) -> None:
        """Answer the next requests of a kind with an object."""
        self._rules.append(_Rule(re.compile(wanted), times, status=status, body=body))

    def drop_answer(
        self, wanted: str, *, times: int = 1, then: Callable[[], object] = lambda: None
    ) -> None:
        """Have the next requests of a kind done by the engine, and cut before it can say so."""
        self._rules.append(_Rule(re.compile(wanted), times, drop_answer=True, then=then))

    def hold(self, wanted: str, wait: threading.Event) -> None:
        """Pass the next request of a kind on when the event is set."""
        self._rules.append(_Rule(re.compile(wanted), 1, wait=wait))

    def _accept(self, listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                client, _ = listener.accept()
                self._keep(client)
                threading.Thread(target=self._serve, args=[client], daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with suppress(OSError):
            request = _read_request(client)
            if request:
                self._handle(client, request)
        self._drop(client)

    def _handle(self, client: socket.socket, request: bytes) -> None:
        line = request.split(b"\r\n", 1)[0].decode()
        method, target, _ = line.split(" ")
        target = _VERSION.sub("", target)
        self.requests.append(f"{method} {target.split('?')[0]}")
        rule = self._find_rule(f"{method} {target}")
        if rule is not None and rule.wait is not None:
            rule.wait.wait(timeout=60)
        if rule is not None and rule.status:
            client.sendall(_make_answer(rule.status, rule.body))
            return
        server = socket.socket(socket.AF_UNIX)
        server.connect(self._engine)
        self._keep(server)
        try:
            self._pass_on(client, server, request, rule)
        finally:
            self._drop(server)

    def _pass_on(
        self, client: socket.socket, server: socket.socket, request: bytes, rule: _Rule | None
    ) -> None:
        upgrades = b"\r\nupgrade: tcp\r\n" in request.lower()
        server.sendall(request if upgrades else _ask_to_close(request))
        if rule is not None and rule.drop_answer:
            while server.recv(_CHUNK) and not upgrades:
                pass
            rule.then()
            return
        if upgrades:
            threading.Thread(target=_copy, args=(client, server), daemon=True).start()
        _copy(server, client)

    def _find_rule(self, request: str) -> _Rule | None:
        with self._lock:
            rule = next((one for one in self._rules if one.wanted.search(request)), None)
            if rule is not None:
                rule.times -= 1
                if not rule.times:
                    self._rules.remove(rule)
            return rule

    def _keep(self, one: socket.socket) -> None:
        with self._lock:
            self._open.add(one)

    def _drop(self, one: socket.socket) -> None:
        with self._lock:
            self._open.discard(one)
        with suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)
        one.close()


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(_CHUNK):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)


def _read_request(client: socket.socket) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data:
        more = client.recv(_CHUNK)
        if not more:
            return b""
        data += more
    head, _, body = data.partition(b"\r\n\r\n")
    length = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
    wanted = int(length.group(1)) if length else 0
    while len(body) < wanted:
        body += client.recv(_CHUNK)
    return head + b"\r\n\r\n" + body


def _ask_to_close(request: bytes) -> bytes:
    head, _, body = request.partition(b"\r\n\r\n")
    lines = [one for one in head.split(b"\r\n") if not one.lower().startswith(b"connection:")]
    return b"\r\n".join([*lines, b"Connection: close"]) + b"\r\n\r\n" + body


def _make_answer(status: int, answer: Mapping[str, object]) -> bytes:
    body = json.dumps(answer).encode()
    head = f"HTTP/1.1 {status} Made\r\nContent-Type: application/json\r\nConnection: close\r\n"
    return head.encode() + b"Content-Length: %d\r\n\r\n" % len(body) + body
