"""Types of argument fields: text that can be an argument vector's member, or be written at all."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator

ARGUMENT_BYTES = 100_000
"""Longest member of an argument vector; Linux refuses more than 131,071 (MAX_ARG_STRLEN)."""

PATH_BYTES = 4096
"""Longest path (PATH_MAX)."""


def _check_text(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError("it holds half of a surrogate pair, which is no character") from error
    return text


def _check_argument(text: str) -> str:
    if not text.strip():
        raise ValueError("it is empty")
    if "\0" in _check_text(text):
        raise ValueError("it holds a NUL byte")
    if len(text.encode()) > ARGUMENT_BYTES:
        raise ValueError(
            f"it is longer than {ARGUMENT_BYTES} bytes; write it to a file first and use that"
        )
    return text


def _check_path(text: str) -> str:
    if len(_check_argument(text).encode()) > PATH_BYTES:
        raise ValueError(f"it is longer than {PATH_BYTES} bytes")
    return text


Text = Annotated[str, AfterValidator(_check_text)]
"""Any text that has an UTF-8 form."""

Argument = Annotated[str, AfterValidator(_check_argument)]
"""Text that fits into an argument vector."""

Path = Annotated[str, AfterValidator(_check_path)]
"""A file name inside the container."""
