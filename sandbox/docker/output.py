"""A command's output as it arrives: frames taken apart, bytes capped, counted and hashed."""

from __future__ import annotations

import hashlib

from sandbox.command import CappedOutput

_HEADER_BYTES = 8  # Engine API, "Stream format": type, three zero bytes, big-endian length
_STDERR = 2
_SLACK_BYTES = 256 * 1024  # how far the tail may overgrow before it is cut: amortises the copy


class CappedStream:
    """Keeps the first and the last bytes of a stream, each half of the cap."""

    def __init__(self, cap_bytes: int) -> None:
        self._head_cap = (cap_bytes + 1) // 2
        self._tail_cap = cap_bytes - self._head_cap
        self._head = bytearray()
        self._tail = bytearray()
        self._total = 0
        self._hash = hashlib.sha256()

    def add(self, data: memoryview | bytes) -> None:
        """Take the next bytes."""
        self._hash.update(data)
        self._total += len(data)
        room = self._head_cap - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        self._tail += data[max(0, len(data) - self._tail_cap) :]
        if len(self._tail) > self._tail_cap + _SLACK_BYTES:
            del self._tail[: len(self._tail) - self._tail_cap]

    def finish(self) -> CappedOutput:
        """Return what was kept."""
        tail = bytes(self._tail[max(0, len(self._tail) - self._tail_cap) :])
        head = bytes(self._head)
        if len(head) + len(tail) == self._total:
            head, tail = head + tail, b""
        return CappedOutput(
            head=head, tail=tail, total_bytes=self._total, sha256=self._hash.hexdigest()
        )


class FrameReader:
    """Sorts the engine's multiplexed frames into standard output and standard error."""

    def __init__(self, cap_bytes: int) -> None:
        self.stdout = CappedStream(cap_bytes)
        self.stderr = CappedStream(cap_bytes)
        self._header = bytearray()
        self._left = 0
        self._into = self.stdout

    def feed(self, data: memoryview) -> None:
        """Take the next bytes of the connection, cut anywhere."""
        while data:
            if self._left:
                self._into.add(data[: self._left])
                taken = min(self._left, len(data))
                self._left -= taken
            else:
                taken = self._take_header(data)
            data = data[taken:]

    def _take_header(self, data: memoryview) -> int:
        taken = min(_HEADER_BYTES - len(self._header), len(data))
        self._header += data[:taken]
        if len(self._header) == _HEADER_BYTES:
            self._into = self.stderr if self._header[0] == _STDERR else self.stdout
            self._left = int.from_bytes(self._header[4:], "big")
            self._header.clear()
        return taken
