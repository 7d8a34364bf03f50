"""A socket in front of the engine: passes all bytes on and keeps what was asked and said."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from sandbox.docker.engine import DEFAULT_URL

_REQUEST = re.compile(rb"(GET|HEAD|POST|PUT|DELETE|PATCH) (\S+) HTTP/1\.[01]\r\n")
_CHUNK_BYTES = 256 * 1024
_TAIL_BYTES = 4096  # a request line, or a watched word, may come in two pieces


class EngineRecorder:
    """What went over the socket. Thread-safe, since it is only appended to."""

    def __init__(self, watched: Sequence[bytes]) -> None:
        self._watched = watched
        self.requests: list[str] = []
        """Method and path of each request, in the order in which they came."""
        self.seen: set[bytes] = set()
        """Those of the watched words that went past, in whichever direction."""

    def serve(self, server: socket.socket, engine: str) -> None:
        """Take connections until the listening socket is shut down."""
        while True:
            try:
                client, _ = server.accept()
            except OSError:
                return
            upstream = socket.socket(socket.AF_UNIX)
            upstream.connect(engine)
            for source, target, asks in ((client, upstream, True), (upstream, client, False)):
                pump = threading.Thread(
                    target=self._pass_on, args=(source, target), kwargs={"asks": asks}, daemon=True
                )
                pump.start()

    def _pass_on(self, source: socket.socket, target: socket.socket, *, asks: bool) -> None:
        tail = b""
        with suppress(OSError):
            while data := source.recv(_CHUNK_BYTES):
                self._note(tail, data, asks=asks)
                tail = (tail + data)[-_TAIL_BYTES:]
                target.sendall(data)
        with suppress(OSError):
            target.shutdown(socket.SHUT_WR)  # standard input ends so; output may still come
        if not asks:
            source.close()
            target.close()

    def _note(self, tail: bytes, data: bytes, *, asks: bool) -> None:
        text = tail + data
        self.seen.update(word for word in self._watched if word in text)
        if asks:
            for found in _REQUEST.finditer(text):
                if found.end() > len(tail):
                    self.requests.append(f"{found[1].decode()} {found[2].decode()}")


@contextmanager
def record_engine(path: Path, *, watched: Sequence[bytes] = ()) -> Iterator[EngineRecorder]:
    """Listen at a socket's path; what connects there talks to the engine, and is recorded."""
    recorder = EngineRecorder(watched)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen(64)
        engine = DEFAULT_URL.removeprefix("unix://")
        thread = threading.Thread(target=recorder.serve, args=(server, engine))
        thread.start()
        try:
            yield recorder
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()
