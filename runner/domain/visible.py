"""Text for eyes: what cannot be seen, reorders or steers a terminal is shown by its code."""

from __future__ import annotations

import unicodedata

_KEPT = frozenset("\t\n")
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})
"""Categories: controls, formats, surrogates, private use, line and paragraph separators."""


def show_text(text: object) -> str:
    """Return text in which every character but tab and line feed can be seen."""
    return "".join(_show_character(one) for one in str(text).replace("\r\n", "\n"))


def show_line(text: object, characters: int = 120) -> str:
    """Return the beginning of a text as one visible line."""
    line = " ".join(show_text(text).split())
    return line if len(line) <= characters else line[: characters - 1] + "…"


def _show_character(one: str) -> str:
    if one in _KEPT or unicodedata.category(one) not in _HIDDEN:
        return one
    return f"[U+{ord(one):04X}]"
