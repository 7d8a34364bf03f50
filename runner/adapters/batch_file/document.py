"""YAML or JSON text as plain values that remember their lines.

Scalars follow YAML 1.2's core schema: `on`, `no`, `1:30` and dates are text, only `true` and
`false` are booleans. Numbers with a point become Decimal, sequences tuples. Duplicate keys are
refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import TypeAlias

import yaml

from runner.errors import BatchFileError

Value: TypeAlias = "bool | int | Decimal | str | tuple[Value, ...] | Mapping[str, Value] | None"
Path: TypeAlias = "tuple[str | int, ...]"

MAX_NODES = 200_000
"""More values than any file that people write; stops aliases that multiply."""

MAX_DEPTH = 50
"""Deeper than any file that people write; keeps later walks within the interpreter's stack."""

SHOWN_DEPTH = 10
"""How many parts name a field that is nested too deeply; enough for a script's arguments."""

_TOO_DEEP = f"nested more than {MAX_DEPTH} levels deep"
_INT = re.compile(r"[-+]?[0-9]+")
_NUMBER = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_BOOLS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_PLAIN_TAGS = frozenset(
    {"tag:yaml.org,2002:str", "tag:yaml.org,2002:map", "tag:yaml.org,2002:seq"}
)


class _Loader(yaml.SafeLoader):
    """A composer that leaves every plain scalar a string."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012  PyYAML reads the class attribute


@dataclass(slots=True)
class Document:
    """A file's value and where each part of it stands."""

    file: str
    value: Value = None
    lines: dict[Path, int] = field(default_factory=dict)
    """From 1; a mapping's member has the line of its key."""
    problems: list[BatchFileError] = field(default_factory=list)
    """What was wrong with the text itself, in the file's order."""

    def has(self, path: Path) -> bool:
        """Tell whether the file writes this field."""
        return path in self.lines

    def locate(self, *paths: Path) -> tuple[int, str]:
        """Return line and shown name of the first of the paths that is in the file.

        When none is, the line is that of the nearest ancestor of the first and the name is the
        first path's own.
        """
        for path in paths:
            if path in self.lines:
                return self.lines[path], show_field(path)
        wanted = paths[0]
        nearest = wanted
        while nearest and nearest not in self.lines:
            nearest = nearest[:-1]
        return self.lines.get(nearest, 1), show_field(wanted)

    def problem(self, text: str, *paths: Path) -> BatchFileError:
        """Make the error that says what is wrong at the first of the paths that exists."""
        line, shown = self.locate(*paths)
        return BatchFileError(self.file, line, shown, text)


def show_field(path: Path) -> str:
    """Return `tasks[0].verify.argv` for a path of keys and indexes."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += f".{part}" if text else part
    return text


def parse_document(text: str, *, file: str) -> Document:
    """Parse YAML.

    Raises:
        BatchFileError: the text is not YAML, holds several documents, is empty, too large or
            nested too deeply.
    """
    document = Document(file)
    try:
        node = yaml.compose(text, Loader=_Loader)
    except yaml.YAMLError as error:
        raise _syntax_error(file, error) from error
    except RecursionError as error:
        raise BatchFileError(file, _find_too_deep(text), "", _TOO_DEEP) from error
    except (ValueError, OverflowError) as error:  # an escape that is no character
        raise BatchFileError(file, 1, "", f"not YAML: {error}") from error
    if node is None:
        raise BatchFileError(file, 1, "", "the file is empty")
    budget = iter(range(MAX_NODES))
    document.value = _read(node, (), document, budget)
    return document


def parse_json_document(text: str, *, file: str) -> Document:
    """Parse JSON; lines of single fields are not known, all stand at 1.

    Raises:
        BatchFileError: the text is not JSON, or nested too deeply.
    """
    document = Document(file)
    try:
        raw = json.loads(text, parse_float=Decimal)
    except json.JSONDecodeError as error:
        raise BatchFileError(file, error.lineno, "", f"not JSON: {error.msg}") from error
    except RecursionError as error:
        raise BatchFileError(file, 1, "", _TOO_DEEP) from error
    except ValueError as error:  # a number of thousands of digits
        raise BatchFileError(file, 1, "", "a number has too many digits") from error
    document.value = _tuples(raw, (), document)
    return document


def _tuples(raw: object, path: Path, document: Document) -> Value:
    if len(path) > MAX_DEPTH:
        raise _too_deep(document, 1, path)
    if isinstance(raw, dict):
        return {key: _tuples(member, (*path, key), document) for key, member in raw.items()}
    if isinstance(raw, list):
        members = enumerate(raw)
        return tuple(_tuples(member, (*path, index), document) for index, member in members)
    if raw is None or isinstance(raw, (bool, int, Decimal, str)):
        return raw
    raise TypeError(f"JSON gave a {type(raw).__name__}")


def _find_too_deep(text: str) -> int:
    """Return the line where the nesting gets too deep, from 1; events need no stack."""
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > MAX_DEPTH and event.start_mark is not None:
            return event.start_mark.line + 1
    return 1


def _too_deep(document: Document, line: int, path: Path) -> BatchFileError:
    return BatchFileError(document.file, line, show_field(path[:SHOWN_DEPTH]), _TOO_DEEP)


def _syntax_error(file: str, error: yaml.YAMLError) -> BatchFileError:
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        line = error.problem_mark.line + 1
        what = " ".join(part for part in (error.context, error.problem) if part)
        return BatchFileError(file, line, "", f"not YAML: {what}")
    reason = str(error).splitlines()[0]
    return BatchFileError(file, 1, "", f"not YAML: {reason}")


def _read(node: yaml.Node, path: Path, document: Document, budget: Iterator[int]) -> Value:
    line = node.start_mark.line + 1
    document.lines.setdefault(path, line)
    if len(path) > MAX_DEPTH:
        raise _too_deep(document, line, path)
    if next(budget, None) is None:
        raise BatchFileError(document.file, line, "", "the file is too large")
    if isinstance(node, yaml.ScalarNode):
        return _read_scalar(node, path, document)
    if isinstance(node, yaml.MappingNode):
        return _read_mapping(node, path, document, budget)
    members = enumerate(node.value)
    return tuple(_read(member, (*path, index), document, budget) for index, member in members)


def _read_mapping(
    node: yaml.MappingNode, path: Path, document: Document, budget: Iterator[int]
) -> Mapping[str, Value]:
    result: dict[str, Value] = {}
    for key_node, member in node.value:
        line = key_node.start_mark.line + 1
        if not isinstance(key_node, yaml.ScalarNode):
            problem = "a key must be plain text"
            document.problems.append(
                BatchFileError(document.file, line, show_field(path), problem)
            )
            continue
        where = (*path, key_node.value)
        if key_node.value in result:
            problem = f"written twice, first on line {document.lines[where]}; keep one of the two"
            document.problems.append(
                BatchFileError(document.file, line, show_field(where), problem)
            )
            continue
        document.lines[where] = line
        result[key_node.value] = _read(member, where, document, budget)
    return result


def _read_scalar(node: yaml.ScalarNode, path: Path, document: Document) -> Value:
    text = str(node.value)
    if node.tag not in _PLAIN_TAGS:
        document.problems.append(
            document.problem(f"the tag {node.tag!r} has no meaning here", path)
        )
        return text
    if node.style is not None:
        return text
    if text in _NULLS:
        return None
    if text in _BOOLS:
        return _BOOLS[text]
    return _read_number(text, path, document) if _NUMBER.fullmatch(text) else text


def _read_number(text: str, path: Path, document: Document) -> Value:
    try:
        return int(text) if _INT.fullmatch(text) else Decimal(text)
    except (ValueError, InvalidOperation):
        document.problems.append(document.problem("a number with too many digits", path))
        return text
