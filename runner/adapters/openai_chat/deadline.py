"""A total deadline over reading an answer: httpx only limits each single read.

A server that sends a byte now and then would re-arm that limit for ever, so the socket itself is
shut when the time is over. Not covered: response headers that trickle in; there each read has the
limit, since no response exists yet.
"""

from __future__ import annotations

import socket
import threading
from types import TracebackType

import httpx


class ReadDeadline:
    """Shuts the socket of a response unless its context is left in time."""

    def __init__(self, response: httpx.Response, seconds: float) -> None:
        self._socket = _socket_of(response)
        self._lock = threading.Lock()
        self._over = False
        self._timer = threading.Timer(seconds, self._cut)
        self._timer.daemon = True

    def __enter__(self) -> None:
        self._timer.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with self._lock:  # from here on the connection may serve another request
            self._over = True
        self._timer.cancel()

    def _cut(self) -> None:
        with self._lock:
            if not self._over and self._socket is not None:
                _shut(self._socket)


def _socket_of(response: httpx.Response) -> socket.socket | None:
    """Return the socket below a response, or None where a transport has none."""
    stream = response.extensions.get("network_stream")
    found = stream.get_extra_info("socket") if stream is not None else None
    return found if isinstance(found, socket.socket) else None


def _shut(connection: socket.socket) -> None:
    try:
        # not the method of ssl.SSLSocket: it drops its state under the reading thread
        socket.socket.shutdown(connection, socket.SHUT_RDWR)
    except OSError:  # the other side was faster
        return
