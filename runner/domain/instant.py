"""Instants as text: RFC 3339 UTC with microseconds."""

from __future__ import annotations

from datetime import UTC, datetime


def show_instant(instant: datetime) -> str:
    """Return `2026-11-30T10:36:37.000000Z`.

    Raises:
        ValueError: the instant is naive.
    """
    if instant.tzinfo is None:
        raise ValueError("a naive datetime has no place in the store")
    return instant.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def parse_instant(text: str) -> datetime:
    """Return the aware UTC instant of a text made by show_instant.

    Raises:
        ValueError: another form.
    """
    return datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=UTC)
