"""Compares what an engine says of a live container with a file of ours, whole and value by value.

What may differ from engine to engine is listed in that file, each with its reason; everything else
is drift: a value, an element more or less, a key that nobody expected.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

GOLDEN = json.loads(Path(__file__).parent.joinpath("hostile/golden_inspect.json").read_text())

Where = tuple[str | int, ...]

_ABSENT = "(absent)"
_TOLERATED = {tuple(one["path"]): one for one in GOLDEN["tolerated"]}
_AT_LEAST = {tuple(one["path"]) for one in GOLDEN["more_is_stricter"]}


def fill(value: Any, words: Mapping[str, str]) -> Any:
    """Return a part of the golden document with the words in braces replaced."""
    if isinstance(value, str):
        for word, text in words.items():
            value = value.replace(f"{{{word}}}", text)
        return value
    if isinstance(value, list):
        return [fill(one, words) for one in value]
    if isinstance(value, dict):
        return {key: fill(one, words) for key, one in value.items()}
    return value


def list_golden_drift(expected: Mapping[str, Any], found: Mapping[str, Any]) -> list[str]:
    """Return where a container differs from a filled golden document."""
    drift: list[str] = []
    for key, value in expected.items():
        drift += _compare(value, found.get(key, _ABSENT), (key,))
    return drift


def _compare(expected: Any, found: Any, where: Where) -> Iterator[str]:
    rule = _TOLERATED.get(where, {})
    if found in rule.get("values", ()) or (found == _ABSENT and rule.get("may_be_absent")):
        return
    if isinstance(expected, dict) and isinstance(found, dict):
        for key in sorted({*expected, *found}):
            yield from _compare(expected.get(key, _ABSENT), found.get(key, _ABSENT), (*where, key))
    elif isinstance(expected, list) and isinstance(found, list):
        yield from _compare_lists(expected, found, where)
    elif type(expected) is not type(found) or expected != found:  # to Python, 0 is False
        yield f"{where}: {found!r} instead of {expected!r}"


def _compare_lists(expected: list[Any], found: list[Any], where: Where) -> Iterator[str]:
    if where in _AT_LEAST:
        missing = [one for one in expected if one not in found]
        if missing:
            yield f"{where}: lacks {missing}"
        return
    if len(expected) != len(found):
        yield f"{where}: {found!r} instead of {expected!r}"
        return
    for number, (one, other) in enumerate(zip(expected, found, strict=True)):
        yield from _compare(one, other, (*where, number))


def list_leaves(value: Any, where: Where = ()) -> Iterator[Where]:
    """Return the place of every value that holds no others; an empty list or object is one."""
    if isinstance(value, dict) and value:
        for key, one in value.items():
            yield from list_leaves(one, (*where, key))
    elif isinstance(value, list) and value:
        for number, one in enumerate(value):
            yield from list_leaves(one, (*where, number))
    else:
        yield where


def list_objects(value: Any, where: Where = ()) -> Iterator[Where]:
    """Return the place of every object, which a key could be added to."""
    if isinstance(value, dict):
        yield where
    below = value.items() if isinstance(value, dict) else enumerate(value)
    for key, one in below:
        if isinstance(one, dict | list):
            yield from list_objects(one, (*where, key))


def with_planted(document: Any, where: Where) -> Any:
    """Return a copy in which one leaf is another value."""
    copy = deepcopy(document)
    holder = _go_to(copy, where[:-1])
    holder[where[-1]] = _make_another(holder[where[-1]])
    return copy


def with_added(document: Any, where: Where) -> Any:
    """Return a copy in which one object has a key that nobody expected."""
    copy = deepcopy(document)
    _go_to(copy, where)["Planted"] = True
    return copy


def without(document: Any, where: Where) -> Any:
    """Return a copy that lacks one leaf."""
    copy = deepcopy(document)
    del _go_to(copy, where[:-1])[where[-1]]
    return copy


def _go_to(document: Any, where: Where) -> Any:
    for step in where:
        document = document[step]
    return document


def _make_another(value: Any) -> Any:
    match value:
        case bool():
            return not value
        case int():
            return value + 1
        case str():
            return f"{value}x"
        case list():
            return ["planted"]
        case _:
            return {"planted": "x"}
