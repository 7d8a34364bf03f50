"""Cut output in the middle, so that beginning and end stay and the gap is counted exactly."""

from __future__ import annotations

from collections.abc import Sequence

from runner.domain.text import decode_output
from sandbox import CappedOutput

MARKER_BYTES = 192
"""Room for the line that stands in a gap: words, a digest, two numbers."""

SEQUENCE_BYTES = 4
"""Longest UTF-8 sequence (RFC 3629)."""


def cut_text(output: CappedOutput, room_bytes: int) -> str:
    """Return decoded output whose UTF-8 form has at most `room_bytes`.

    Below 192 bytes of room a gap's own line may not fit; it is shown nevertheless.
    """
    if not output.missing_bytes and output.total_bytes <= room_bytes:
        text = decode_output(output.head + output.tail).text
        if len(text.encode()) <= room_bytes:
            return text
    head_source, tail_source = _sources(output)
    half = max(room_bytes - MARKER_BYTES, 0) // 2
    head = head_source[: _fit_head(head_source, half)]
    if not output.missing_bytes:
        tail_source = tail_source[len(head) :]
    tail = tail_source[_fit_tail(tail_source, half) :]
    return decode_output(head).text + _gap(output, head, tail) + decode_output(tail).text


def cut_bytes(output: CappedOutput, room_bytes: int) -> bytes:
    """Return the kept bytes with the gap's line between, at most `room_bytes` together."""
    kept = output.head + output.tail
    if not output.missing_bytes and len(kept) <= room_bytes:
        return kept
    head_source, tail_source = _sources(output)
    half = max(room_bytes - MARKER_BYTES, 0) // 2
    head = head_source[:half]
    if not output.missing_bytes:
        tail_source = tail_source[len(head) :]
    tail = tail_source[max(len(tail_source) - half, 0) :]
    return head + _gap(output, head, tail).encode() + tail


def share_room(room_bytes: int, wanted: Sequence[int]) -> list[int]:
    """Share room: who wants little gets all of it, the others get equal parts of the rest."""
    shares = [0] * len(wanted)
    left = max(room_bytes, 0)
    order = sorted(range(len(wanted)), key=lambda index: wanted[index])
    for done, index in enumerate(order):
        shares[index] = min(wanted[index], left // (len(order) - done))
        left -= shares[index]
    return shares


def _sources(output: CappedOutput) -> tuple[bytes, bytes]:
    """Return what the first part and the last part are taken from."""
    if output.missing_bytes:
        return output.head, output.tail
    kept = output.head + output.tail
    return kept, kept


def _gap(output: CappedOutput, head: bytes, tail: bytes) -> str:
    missing = output.total_bytes - len(head) - len(tail)
    return (
        f"\n[{missing} of {output.total_bytes} bytes are missing here; "
        f"sha256 of all: {output.sha256}]\n"
    )


def _fit_head(data: bytes, room: int) -> int:
    """Return the length of a first part whose decoded form fits, cut between characters."""
    end = min(len(data), room)
    while True:
        end = _boundary(data, end)
        size = len(decode_output(data[:end]).text.encode())
        if size <= room:
            return end
        end = end * room // size


def _fit_tail(data: bytes, room: int) -> int:
    """Return the start of a last part whose decoded form fits, cut between characters."""
    length = min(len(data), room)
    while True:
        start = _boundary_after(data, len(data) - length)
        size = len(decode_output(data[start:]).text.encode())
        if size <= room:
            return start
        length = (len(data) - start) * room // size


def _boundary(data: bytes, end: int) -> int:
    """Move an end back to where no UTF-8 sequence is cut; at most one sequence."""
    for back in range(min(SEQUENCE_BYTES, end)):
        if end - back == len(data) or not _continues(data[end - back]):
            return end - back
    return end


def _boundary_after(data: bytes, start: int) -> int:
    """Move a start forward to where no UTF-8 sequence is cut; at most one sequence."""
    for ahead in range(min(SEQUENCE_BYTES, len(data) - start)):
        if start == 0 or not _continues(data[start + ahead]):
            return start + ahead
    return start


def _continues(byte: int) -> bool:
    return byte & 0xC0 == 0x80  # RFC 3629 §3: 10xxxxxx continues a sequence
