"""YAML text as plain values that know their lines.

Only a part of YAML: one document of mappings with text keys, sequences and scalars, without
anchors, tags and merge keys. Scalars are read as in YAML 1.2, so `on`, `no` and `1:30` are text.
Numbers with a point stay exact (Decimal). Sequences become tuples.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TypeAlias

import yaml

from policies.errors import PolicyFileError

Plain: TypeAlias = "bool | int | str | Decimal | tuple[Plain, ...] | Mapping[str, Plain]"
FieldPath: TypeAlias = tuple[str | int, ...]

_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]*)")
_DECIMAL = re.compile(r"[-+]?[0-9]+\.[0-9]+")
_BOOLEANS = {"true": True, "false": False}
_NOTHING = frozenset({"", "~", "null", "Null", "NULL"})


class _Loader(yaml.SafeLoader):
    """A loader that leaves plain scalars as they are written."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012  PyYAML reads this class attribute


@dataclass(frozen=True, slots=True)
class YamlTree:
    """What a file says, and where."""

    file: str
    value: Plain
    lines: Mapping[FieldPath, int] = field(default_factory=dict)
    """Lines count from 1; a mapping's member has the line of its key."""

    def line_of(self, path: FieldPath) -> int:
        """Return the line of a field, or of the nearest field around it that is written."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)


def parse_yaml(text: str, *, file: str) -> YamlTree:
    """Parse YAML text.

    Raises:
        PolicyFileError: the text is empty, not YAML, or uses what this reader leaves out.
    """
    reader = _Reader(file)
    return YamlTree(file, reader.read(_compose(text, file=file), ()), reader.lines)


def show_field(path: FieldPath) -> str:
    """Return a field's path as people write it: `commands[0].match`."""
    shown = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return shown.removeprefix(".")


def _compose(text: str, *, file: str) -> yaml.Node:
    try:
        node = yaml.compose(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise PolicyFileError(file, line, "", f"not YAML: {error.problem}") from error
    except yaml.YAMLError as error:
        raise PolicyFileError(file, 1, "", "not YAML: it holds control characters") from error
    except RecursionError as error:
        raise PolicyFileError(file, 1, "", "nested too deeply") from error
    if node is None:
        raise PolicyFileError(file, 1, "", "is empty; write at least version: 1")
    return node


def _is_text(value: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in value)


class _Reader:
    """Turns composed nodes into plain values, noting the line of each field."""

    def __init__(self, file: str) -> None:
        self.lines: dict[FieldPath, int] = {}
        self._file = file
        self._seen: set[int] = set()

    def read(self, node: yaml.Node, path: FieldPath) -> Plain:
        self.lines.setdefault(path, node.start_mark.line + 1)
        if id(node) in self._seen:
            # an alias gives the very same node again; nested ones would multiply without bound
            raise self._fail(path, "refers to an anchor; write the value out")
        self._seen.add(id(node))
        if isinstance(node, yaml.MappingNode):
            return self._read_mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            self._check_tag(node, "seq", path)
            return tuple(
                self.read(member, (*path, index)) for index, member in enumerate(node.value)
            )
        return self._read_scalar(node, path)

    def _read_mapping(self, node: yaml.MappingNode, path: FieldPath) -> Plain:
        self._check_tag(node, "map", path)
        members: dict[str, Plain] = {}
        for key, value in self._list_members(node, path):
            member = (*path, key.value)
            if key.value in members:
                first = self.lines[member]
                self.lines[member] = key.start_mark.line + 1
                raise self._fail(member, f"is written twice; first in line {first}")
            self.lines[member] = key.start_mark.line + 1
            members[key.value] = self.read(value, member)
        return members

    def _list_members(
        self, node: yaml.MappingNode, path: FieldPath
    ) -> Iterator[tuple[yaml.ScalarNode, yaml.Node]]:
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise self._fail(path, "has a key that is not text")
            self._check_tag(key, "str", path)
            if not _is_text(key.value):
                raise self._fail(path, "has a key that is not text")
            yield key, value

    def _read_scalar(self, node: yaml.Node, path: FieldPath) -> Plain:
        self._check_tag(node, "str", path)
        text = str(node.value)
        if not _is_text(text):
            raise self._fail(path, "holds half of a surrogate pair, which is not text")
        if not isinstance(node, yaml.ScalarNode) or node.style is not None:
            return text
        if text in _NOTHING:
            raise self._fail(path, "has no value; remove the key, or write [] for nothing")
        if text in _BOOLEANS:
            return _BOOLEANS[text]
        if _INTEGER.fullmatch(text) and len(text) < 20:
            return int(text)
        if _DECIMAL.fullmatch(text) and len(text) < 20:
            return Decimal(text)
        return text

    def _check_tag(self, node: yaml.Node, kind: str, path: FieldPath) -> None:
        if node.tag != f"tag:yaml.org,2002:{kind}":
            raise self._fail(path, f"has the tag {node.tag!r}; tags are not read")

    def _fail(self, path: FieldPath, problem: str) -> PolicyFileError:
        return PolicyFileError(self._file, self.lines.get(path, 1), show_field(path), problem)
