"""A tool call's arguments: the text that a model sent, and the JSON object it stands for.

Models send the empty string for "no arguments" and sometimes an object inside a JSON string; both
are read as what is meant. Anything else that is not an object is refused, never guessed.
"""

from __future__ import annotations

import json


def parse_arguments(text: str) -> dict[str, object]:
    """Return the object that a call's arguments text stands for.

    Raises:
        ValueError: it is no JSON object; the message says what it is instead.
    """
    if not text.strip():
        return {}
    value = _decode(text)
    if isinstance(value, str):
        value = _decode(value)
    if not isinstance(value, dict):
        raise ValueError(f"a JSON object is needed, not {_name_of(value)}")  # noqa: TRY004
    return value


def object_text(text: str) -> str | None:
    """Return a text that is a JSON object and stands for the same, or None where there is none.

    A text that already is an object comes back unchanged, byte for byte.
    """
    try:
        parsed = parse_arguments(text)
        if not text.strip():
            return "{}"
        outer = _decode(text)
    except ValueError:
        return None
    return text if outer == parsed else str(outer)


def _decode(text: str) -> object:
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    except json.JSONDecodeError as error:
        raise ValueError(f"not valid JSON: {error.msg} at character {error.pos}") from error


def _refuse_constant(name: str) -> object:
    raise ValueError(f"not valid JSON: {name}")


def _name_of(value: object) -> str:
    names = {list: "an array", str: "a string", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")
