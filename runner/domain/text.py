"""Text from outside, made fit for every store: no U+0000, no lone surrogates."""

from __future__ import annotations

import re
from dataclasses import dataclass

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"

_UNFIT = re.compile("[\x00\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class CleanText:
    """Text that JSON, SQLite and PostgreSQL all carry unchanged."""

    text: str
    changed: bool
    """Something was replaced: the text is not exactly what was received."""


def clean_text(text: str) -> CleanText:
    """Turn each U+0000 and each lone surrogate into U+FFFD.

    Every other character stays as it is, line separators such as U+2028 and U+0085 included.
    """
    clean, count = _UNFIT.subn(REPLACEMENT, text)
    return CleanText(clean, changed=count > 0)


def decode_output(data: bytes) -> CleanText:
    """Decode the output of a command as UTF-8 and clean it.

    What is not UTF-8 becomes U+FFFD; surrogates encoded as UTF-8 are not UTF-8.
    """
    try:
        return clean_text(data.decode("utf-8"))
    except UnicodeDecodeError:
        return CleanText(clean_text(data.decode("utf-8", errors="replace")).text, changed=True)
