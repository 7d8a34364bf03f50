"""Turns what pydantic found into errors that name file, line, field and the way out."""

from __future__ import annotations

import difflib
import typing
from collections.abc import Iterator, Sequence

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from runner.adapters.batch_file.document import Document, Path, Value
from runner.adapters.batch_file.entries import Entry
from runner.errors import BatchFileError

_QUOTE = "must be text; put it in quotes"

_MESSAGES = {
    "missing": "missing; it must be given here",
    "string_type": _QUOTE,
    "string_too_short": "must not be empty",
    "int_type": "must be a whole number without quotes",
    "bool_type": "must be true or false",
    "tuple_type": "must be a list",
    "too_short": "must not be an empty list",
    "dict_type": "must be a mapping of keys to values",
    "model_type": "must be a mapping of keys to values",
    "model_attributes_type": "must be a mapping of keys to values",
}
_PATTERNS = {
    r"\S": "must not be empty",
    r"^[^-\s]\S*$": "must be a branch, tag or commit: no spaces, no leading '-'",
    r"^[A-Za-z_][A-Za-z0-9_]*$": "is no name of an environment variable",
}
_SAFE_NAME = (
    "becomes a folder's name: up to 64 letters, digits, '.', '_' and '-', beginning with a letter "
    "or digit"
)


def list_faults(document: Document, entry: type[Entry]) -> list[BatchFileError]:
    """Return everything in a document's structure that the entry class does not allow."""
    try:
        entry.model_validate(document.value)
    except ValidationError as error:
        errors = [one for one in error.errors(include_url=False) if not _follows(one)]
        found = [_fault(document, entry, one) for one in errors]
        return sorted(found, key=lambda fault: fault.line)
    return []


def list_empty_fields(document: Document) -> list[BatchFileError]:
    """Return an error for each field that is written without a value.

    Arguments of scripted calls are not ours: null is a value there.
    """
    paths = _null_paths(document.value, ())
    text = "has no value; give one or leave the key out"
    return [document.problem(text, path) for path in paths]


def join_faults(faults: Sequence[BatchFileError]) -> BatchFileError:
    """Return one error that carries all of them, one for each field, in the order of lines."""
    unique: dict[tuple[str, int, str], BatchFileError] = {}
    for fault in faults:
        unique.setdefault((fault.file, fault.line, fault.field), fault)
    first, *others = sorted(unique.values(), key=lambda one: (one.file, one.line))
    return BatchFileError(first.file, first.line, first.field, first.problem, others=tuple(others))


def _follows(one: ErrorDetails) -> bool:
    """Tell whether a list only counts as too short because its members are wrong."""
    return one["type"] == "too_short" and bool(one["input"])


def _fault(document: Document, entry: type[Entry], one: ErrorDetails) -> BatchFileError:
    path = _real_path(document.value, one["loc"])
    if one["type"] in ("missing", "extra_forbidden"):
        path = (*_real_path(document.value, one["loc"][:-1]), one["loc"][-1])
    return document.problem(_explain(entry, one), path)


def _real_path(value: Value, loc: Path) -> Path:
    """Return a location without the names of union members that pydantic puts into it."""
    path: list[str | int] = []
    for part in loc:
        if isinstance(value, dict) and part in value:
            value = value[str(part)]
        elif isinstance(value, tuple) and isinstance(part, int) and part < len(value):
            value = value[part]
        elif part != "[key]":
            continue
        else:
            break
        path.append(part)
    return tuple(path)


def _explain(entry: type[Entry], one: ErrorDetails) -> str:
    context = one.get("ctx", {})
    match one["type"]:
        case "extra_forbidden":
            text = _unknown_key(entry, one["loc"])
        case "string_pattern_mismatch":
            text = _PATTERNS.get(context["pattern"], _SAFE_NAME)
        case "literal_error" if one["loc"][-1] == "version":
            text = "this release reads version 1"
        case "enum" | "literal_error":
            text = f"must be one of {context['expected']}"
        case kind:
            text = _MESSAGES.get(kind) or one["msg"][:1].lower() + one["msg"][1:]
    return text


def _unknown_key(entry: type[Entry], loc: Path) -> str:
    known = sorted(_find_entry(entry, loc[:-1]).model_fields)
    close = difflib.get_close_matches(str(loc[-1]), known, n=1)
    hint = f"did you mean {close[0]}? " if close else ""
    return f"unknown key; {hint}known here: {', '.join(known)}"


def _find_entry(entry: type[Entry], loc: Path) -> type[Entry]:
    """Walk to the entry class that a location is about."""
    siblings: list[type[Entry]] = []
    for part in loc:
        if not isinstance(part, str):
            continue
        if part in entry.model_fields:
            siblings = list(_entries_in(entry.model_fields[part].annotation))
            entry = siblings[0] if siblings else entry
        elif part.startswith("<"):
            entry = next((one for one in siblings if _accepts(one, part)), entry)
    return entry


def _accepts(entry: type[Entry], tag: str) -> bool:
    kind = entry.model_fields.get("kind")
    return kind is None or f"<{typing.get_args(kind.annotation)[0]}>" == tag


def _entries_in(annotation: object) -> Iterator[type[Entry]]:
    if isinstance(annotation, type) and issubclass(annotation, Entry):
        yield annotation
    for part in typing.get_args(annotation):
        yield from _entries_in(part)


def _null_paths(value: Value, path: Path) -> Iterator[Path]:
    if value is None:
        yield path
    elif isinstance(value, dict):
        for key, member in value.items():
            if key != "arguments":
                yield from _null_paths(member, (*path, key))
    elif isinstance(value, tuple):
        for index, member in enumerate(value):
            yield from _null_paths(member, (*path, index))
