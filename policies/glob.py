"""Path globs: which paths a pattern of a policy or batch file names.

`**` stands for any number of components (also none), `*` and `?` for characters within one
component, `[a-z]` and `[!a-z]` for one character. Letters match as written. Patterns start at the
workspace's root, with or without a leading `/`; `tests/` means `tests/**`. What would silently
match nothing, or less than it seems to say, is refused when the pattern is parsed.

Each pair of pattern part and path part is compared at most once, so no pattern is slow.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from policies.errors import GlobError

MAX_PATTERN_CHARACTERS = 1024

PathParts: TypeAlias = tuple[str, ...]

_P = TypeVar("_P")
_I = TypeVar("_I")


@dataclass(frozen=True, slots=True)
class _OneCharacter:
    """A token that stands for exactly one character."""

    ranges: tuple[tuple[str, str], ...] = ()
    negated: bool = False

    def accepts(self, character: str) -> bool:
        return self.negated != any(low <= character <= high for low, high in self.ranges)


@dataclass(frozen=True, slots=True)
class _Component:
    """What one component of a path must look like."""

    text: str
    tokens: tuple[_OneCharacter | None, ...] = ()
    """None = any run of characters; empty for a literal component."""

    @property
    def is_literal(self) -> bool:
        return not self.tokens

    def accepts(self, name: str) -> bool:
        if self.is_literal:
            return self.text == name
        return _match_runs(self.tokens, name, _OneCharacter.accepts)


@dataclass(frozen=True, slots=True)
class Glob:
    """A parsed pattern."""

    pattern: str
    """As written."""
    components: tuple[_Component | None, ...]
    """None = any number of components (`**`)."""

    def matches(self, path: str | bytes) -> bool:
        """Tell whether the pattern names this path."""
        return self.matches_parts(split_path(path))

    def matches_parts(self, parts: PathParts) -> bool:
        """Tell whether the pattern names the path with these components."""
        return _match_runs(self.components, parts, _Component.accepts)

    def covers(self, path: str | bytes) -> bool:
        """Tell whether the pattern names this path, or is the plain path of one above it."""
        parts = split_path(path)
        return self.matches_parts(parts) or self.is_above(parts)

    def is_above(self, parts: PathParts) -> bool:
        """Tell whether the pattern is one plain path and the given path lies below it."""
        count = len(self.components)
        return count < len(parts) and self._literal_prefix() == parts[:count]

    def is_below(self, parts: PathParts) -> bool:
        """Tell whether all that the pattern names lies below exactly this path."""
        count = len(parts)
        return 0 < count < len(self.components) and self._literal_prefix()[:count] == parts

    def may_be_below(self, parts: PathParts) -> bool:
        """Tell whether the pattern names something below this path, its depth being fixed.

        A path that only `**` could lead through does not count: every directory would.
        """
        leading = self.components[: len(parts)]
        return 0 < len(parts) < len(self.components) and all(
            component is not None and component.accepts(name)
            for component, name in zip(leading, parts, strict=True)
        )

    def _literal_prefix(self) -> PathParts:
        prefix: list[str] = []
        for component in self.components:
            if component is None or not component.is_literal:
                break
            prefix.append(component.text)
        return tuple(prefix)


def parse_glob(pattern: str) -> Glob:
    """Parse a pattern.

    Raises:
        GlobError: the pattern is empty, or says something that no path could match.
    """
    _check_pattern(pattern)
    text = pattern.removeprefix("/")
    if text.endswith("/"):
        text += "**"
    return Glob(pattern, tuple(_parse_component(pattern, name) for name in text.split("/")))


def match_path(pattern: str, path: str | bytes) -> bool:
    """Tell whether a pattern names a path that is relative to the workspace.

    Raises:
        GlobError: the pattern cannot be parsed.
    """
    return parse_glob(pattern).matches(path)


def split_path(path: str | bytes) -> PathParts:
    """Return a path's components; outside the workspace (`/x`) the first is empty."""
    text = path if isinstance(path, str) else path.decode("utf-8", "surrogateescape")
    first, *others = text.split("/")
    parts = tuple(name for name in others if name not in {"", "."})
    if first == "." or text == "":
        return parts
    return (first, *parts)


def _check_pattern(pattern: str) -> None:
    if pattern in {"", "/"}:
        raise GlobError(pattern, "is empty; write ** for everything")
    if len(pattern) > MAX_PATTERN_CHARACTERS:
        raise GlobError(pattern, f"is longer than {MAX_PATTERN_CHARACTERS} characters")
    if pattern.startswith("!"):
        raise GlobError(pattern, "cannot be negated; write a rule of its own")
    if "\\" in pattern or "\0" in pattern:
        raise GlobError(pattern, "holds a backslash or NUL; separate by /, quote as in [*]")


def _parse_component(pattern: str, name: str) -> _Component | None:
    if name == "**":
        return None
    if name in {"", ".", ".."}:
        raise GlobError(pattern, f"has a component {name!r}, which no path has")
    if "**" in name:
        raise GlobError(pattern, "has ** beside other characters; write **/ and then the name")
    if not any(mark in name for mark in "*?["):
        return _Component(name)
    return _Component(name, _parse_tokens(pattern, name))


def _parse_tokens(pattern: str, name: str) -> tuple[_OneCharacter | None, ...]:
    tokens: list[_OneCharacter | None] = []
    index = 0
    while index < len(name):
        character = name[index]
        index += 1
        if character == "*":
            tokens.append(None)
        elif character == "?":
            tokens.append(_OneCharacter(negated=True))
        elif character == "[":
            end = _find_class_end(pattern, name, index)
            tokens.append(_parse_class(pattern, name[index:end]))
            index = end + 1
        else:
            tokens.append(_OneCharacter(((character, character),)))
    return tuple(tokens)


def _find_class_end(pattern: str, name: str, start: int) -> int:
    skipped = start + 1 if name[start : start + 1] in {"!", "^"} else start
    # a `]` that comes first stands for itself, as in fnmatch(3)
    end = name.find("]", skipped + 1)
    if end < 0:
        raise GlobError(pattern, "has a [ without its ]; write [[] for the character itself")
    return end


def _parse_class(pattern: str, text: str) -> _OneCharacter:
    negated = text[0] in "!^"
    members = text[1:] if negated else text
    ranges: list[tuple[str, str]] = []
    index = 0
    while index < len(members):
        if members[index + 1 : index + 2] == "-" and index + 2 < len(members):
            ranges.append((members[index], members[index + 2]))
            index += 3
        else:
            ranges.append((members[index], members[index]))
            index += 1
    if any(low > high for low, high in ranges):
        raise GlobError(pattern, f"has a range that runs backwards in [{text}]")
    return _OneCharacter(tuple(ranges), negated)


def _match_runs(
    pattern: Sequence[_P | None], items: Sequence[_I], accepts: Callable[[_P, _I], bool]
) -> bool:
    """Match items against a pattern in which None stands for any run of items.

    Only the last run is ever lengthened: what stood before it was matched as early as possible,
    which leaves the most room. So no pair is compared twice.
    """
    position = index = 0
    last_run = resume = -1
    while index < len(items):
        wanted = pattern[position] if position < len(pattern) else None
        if position < len(pattern) and wanted is None:
            last_run, resume = position, index
            position += 1
        elif wanted is not None and accepts(wanted, items[index]):
            position += 1
            index += 1
        elif last_run >= 0:
            resume += 1
            position, index = last_run + 1, resume
        else:
            return False
    return all(part is None for part in pattern[position:])
