"""When to try again: growing delays with jitter, and the provider's Retry-After within a cap."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How often and how long to wait."""

    attempts: int = 6
    """With the first."""
    first_seconds: float = 0.5
    longest_seconds: float = 30
    """Cap of the delays that we choose."""
    longest_asked_seconds: float = 120
    """Cap of the delays that a provider asks for; an absurd value is not obeyed."""

    def delay_seconds(self, attempt: int, *, asked: float | None, chance: float) -> float:
        """Return how long to wait after an attempt, counted from 1.

        Args:
            asked: seconds of Retry-After; None = not sent.
            chance: from 0 to 1, spreads clients that failed together.
        """
        grown = min(self.first_seconds * 2.0 ** (attempt - 1), self.longest_seconds)
        if asked is None:
            return grown * (0.5 + chance / 2)
        return min(asked, self.longest_asked_seconds) + grown * chance / 2


def parse_retry_after(header: str, *, now: datetime) -> float | None:
    """Return the seconds of a Retry-After header, or None where it says nothing usable.

    Both forms of RFC 9110 §10.2.3: seconds (with a fraction, too: some providers send one) and an
    HTTP date.
    """
    text = header.strip()
    if text.replace(".", "", 1).isascii() and text.replace(".", "", 1).isdigit():
        return float(text)
    try:
        instant = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    if instant.tzinfo is None:
        return None
    return max((instant - now).total_seconds(), 0.0)
