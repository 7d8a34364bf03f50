"""A rollout as text: one canonical JSON line for each item, every line ended by a line feed.

Lines are split at the line feed alone: U+2028, U+0085 and the like are data. What this cannot
see is a tail that was cut off exactly between two lines; the anchors in run rows and results can.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from runner.domain.ids import SessionId
from runner.domain.items import RolloutItem, parse_line
from runner.errors import DamagedRolloutError


@dataclass(frozen=True, slots=True)
class ReadRollout:
    """What was read from the text form of a rollout."""

    items: tuple[RolloutItem, ...]
    torn_bytes: int
    """Length of a last line that was cut off and dropped; 0 = the text is whole."""


def export_lines(items: Iterable[RolloutItem]) -> bytes:
    """Return the text form of items."""
    return b"".join(item.to_line() + b"\n" for item in items)


def read_lines(data: bytes, session_id: SessionId) -> ReadRollout:
    """Read the text form of a whole rollout.

    A last line without its line feed that cannot be read is torn: it is dropped and reported.

    Args:
        data: the bytes, as export_lines made them.
        session_id: whose rollout it is, for error messages alone.

    Raises:
        DamagedRolloutError: anything else is not what was written; names seq and offset.
    """
    *lines, tail = data.split(b"\n")
    items: list[RolloutItem] = []
    offset = 0
    head = ""
    for line in lines:
        item = _read_next(line, session_id=session_id, place=(len(items) + 1, offset), head=head)
        items.append(item)
        head = item.hash
        offset += len(line) + 1
    if tail:
        try:
            place = (len(items) + 1, offset)
            items.append(_read_next(tail, session_id=session_id, place=place, head=head))
        except DamagedRolloutError:
            return ReadRollout(tuple(items), torn_bytes=len(tail))
    return ReadRollout(tuple(items), torn_bytes=0)


def verify_chain(
    items: Iterable[RolloutItem], *, session_id: SessionId, after: int = 0, head: str = ""
) -> None:
    """Check that items follow one another, from the one after `after`, whose hash is `head`.

    Raises:
        DamagedRolloutError: a seq is missing, or an item does not continue the one before it.
    """
    for seq, item in enumerate(items, start=after + 1):
        _check_link(item, seq=seq, head=head, session_id=session_id)
        head = item.hash


def _check_link(item: RolloutItem, *, seq: int, head: str, session_id: SessionId) -> None:
    if item.seq != seq:
        raise DamagedRolloutError(session_id, seq, f"seq {item.seq} stands where {seq} belongs")
    if item.prev != head:
        raise DamagedRolloutError(session_id, seq, "it does not continue the item before it")


def _read_next(
    line: bytes, *, session_id: SessionId, place: tuple[int, int], head: str
) -> RolloutItem:
    """Read one line that stands at (seq, byte offset), after the item with hash `head`."""
    seq, offset = place
    try:
        item = parse_line(line, session_id=session_id, seq=seq)
        _check_link(item, seq=seq, head=head, session_id=session_id)
    except DamagedRolloutError as error:
        raise DamagedRolloutError(session_id, seq, error.problem, offset=offset) from error
    return item
