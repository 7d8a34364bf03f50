"""Files that the user's own tools execute or obey: changes that look harmless and are not.

Opening a folder, entering it, committing, installing, testing or pushing runs what these files
say, with the user's rights and outside any sandbox. The table errs on the side of flagging.

Letters are compared without case, since some of the tools and file systems do so. What a link of
the *base* leads to is not known here: a change of the file behind it is not flagged.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from policies.canonical import Json
from policies.changes import Change, ChangeKind, EntryKind, show_path
from policies.executing_tools import EXECUTING_TOOLS, PACKAGE_JSON
from policies.glob import Glob, PathParts, parse_glob, split_path

_EXECUTABLE: Final = 0o111


@dataclass(frozen=True, slots=True)
class FlaggedPath:
    """A changed path that deserves a look before it reaches a checkout."""

    path: bytes
    tool: str
    """Who runs or obeys it."""
    reason: str
    """When that happens, or what is wrong with it."""

    def to_json(self) -> Json:
        """Return the form that is shown to scripts."""
        return {"path": show_path(self.path), "tool": self.tool, "reason": self.reason}


@dataclass(frozen=True, slots=True)
class _Pattern:
    """One row of the table, parsed."""

    glob: Glob
    anywhere: bool
    """At any depth; otherwise only at the root."""
    tool: str
    reason: str

    def names(self, parts: PathParts) -> bool:
        return any(self.glob.matches_parts(tail) for tail in self._tails(parts))

    def may_be_below(self, parts: PathParts) -> bool:
        return any(self.glob.may_be_below(tail) for tail in self._tails(parts))

    def _tails(self, parts: PathParts) -> Iterable[PathParts]:
        return (parts[at:] for at in range(len(parts) if self.anywhere else 1))


def flag_change(change: Change) -> FlaggedPath | None:
    """Return why a change deserves a look, or None.

    Deletions count: without its settings a tool may do more. Directories alone do not.
    """
    if change.entry not in {EntryKind.FILE, EntryKind.SYMLINK}:
        return None
    parts = _fold(split_path(change.path))
    found = _find_tool(parts)
    if found is not None:
        return FlaggedPath(change.path, *found)
    if change.kind is ChangeKind.DELETED:
        return None
    if change.entry is EntryKind.SYMLINK:
        return _flag_link(change, parts)
    if change.kind is not ChangeKind.MODIFIED and change.mode & _EXECUTABLE:
        return FlaggedPath(change.path, "shell", "it has become a program that others may start")
    return None


def is_package_json(flagged: FlaggedPath) -> bool:
    """Tell whether a path was flagged for scripts that it may or may not have changed."""
    return _fold(split_path(flagged.path))[-1:] == (PACKAGE_JSON,)


def _flag_link(change: Change, parts: PathParts) -> FlaggedPath | None:
    target = change.content
    if _leads_out(parts, target):
        return FlaggedPath(change.path, "link", f"it leads out of the repository, to {target!r}")
    if _names_git(target):
        return FlaggedPath(change.path, "link", f"it leads to git's own files, to {target!r}")
    for pattern in _PATTERNS:
        if pattern.may_be_below(parts):
            reason = f"it is a link in place of a folder: {pattern.reason}"
            return FlaggedPath(change.path, pattern.tool, reason)
    return None


def _find_tool(parts: PathParts) -> tuple[str, str] | None:
    plain = _PLAIN_NAMES.get(parts[-1])
    if plain is not None:
        return plain
    found = next((one for one in _PATTERNS if one.names(parts)), None)
    return None if found is None else (found.tool, found.reason)


def _leads_out(parts: PathParts, target: str) -> bool:
    """Tell whether a link may end outside the repository.

    `..` after a name counts: the name may be another link, from where `..` leads elsewhere.
    """
    if target.startswith("/"):
        return True
    names = [name for name in target.split("/") if name not in {"", "."}]
    climbs = 0
    while names[climbs : climbs + 1] == [".."]:
        climbs += 1
    return climbs >= len(parts) or ".." in names[climbs:]


def _names_git(target: str) -> bool:
    return any(name.lower().rstrip(" .") in {".git", "git~1"} for name in target.split("/"))


def _fold(parts: PathParts) -> PathParts:
    return tuple(part.lower() for part in parts)


def _is_plain(pattern: str) -> bool:
    return not any(mark in pattern for mark in "/*?[")


_PLAIN_NAMES: Final = {
    pattern: (row.tool, row.reason)
    for row in EXECUTING_TOOLS
    for pattern in row.patterns
    if _is_plain(pattern)
}
"""File names that are flagged wherever they are: most of the table, found at once."""

_PATTERNS: Final = tuple(
    _Pattern(parse_glob(pattern), not pattern.startswith("/"), row.tool, row.reason)
    for row in EXECUTING_TOOLS
    for pattern in row.patterns
    if not _is_plain(pattern)
)
