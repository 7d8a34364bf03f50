"""Which rule matches which path: globs, and what stands above or below the paths they name.

A rule that restricts reaches further than its globs, so that it cannot be got round: the plain
path `tests` covers what lies below it, and `src/tests/**` is touched when `src` is deleted, or
replaced by something that is no directory. A rule that allows never reaches further, and never
names a path outside the workspace.

Not covered: a link to a place outside the workspace that only `**` could name, such as
`a -> /tmp/b` for `**/conftest.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from policies.changes import Change, ChangeKind, EntryKind
from policies.decision import Verdict
from policies.glob import Glob, PathParts, parse_glob, split_path
from policies.policy import ChangeRule, CommandRule

R = TypeVar("R", CommandRule, ChangeRule)


@dataclass(frozen=True, slots=True)
class ReadyRule(Generic[R]):
    """A rule with its globs parsed."""

    rule: R
    globs: tuple[Glob, ...]

    @property
    def restricts(self) -> bool:
        """Tell whether the rule takes something away."""
        return self.rule.then is not Verdict.ALLOW


def prepare_rule(rule: R) -> ReadyRule[R]:
    """Parse a rule's globs.

    Raises:
        GlobError: one of them cannot be parsed.
    """
    return ReadyRule(rule, tuple(parse_glob(pattern) for pattern in rule.paths))


def match_call(ready: ReadyRule[CommandRule], *, tool: str, path: str | None) -> bool:
    """Tell whether a rule matches one path of a tool call; None = the call names no path."""
    if ready.rule.tools and tool not in ready.rule.tools:
        return False
    if path is None:
        return not ready.globs
    return _names(ready, split_path(path))


def match_change(ready: ReadyRule[ChangeRule], change: Change) -> bool:
    """Tell whether a rule matches one changed path."""
    rule = ready.rule
    if rule.kinds and change.kind not in rule.kinds:
        return False
    if change.ignored and not rule.with_ignored:
        return False
    parts = split_path(change.path)
    if _names(ready, parts):
        return True
    return ready.restricts and any(_uproots(change, glob, parts) for glob in ready.globs)


def _names(ready: ReadyRule[R], parts: PathParts) -> bool:
    if not ready.globs:
        return True
    if ready.restricts:
        return any(glob.matches_parts(parts) or glob.is_above(parts) for glob in ready.globs)
    return not _is_outside(parts) and any(glob.matches_parts(parts) for glob in ready.globs)


def _is_outside(parts: PathParts) -> bool:
    return parts[:1] in {("",), ("..",)}


def _uproots(change: Change, glob: Glob, parts: PathParts) -> bool:
    """Tell whether a change takes away or replaces a directory above what a glob names."""
    gone = change.kind is ChangeKind.DELETED
    if change.entry is EntryKind.SYMLINK and not gone:
        # through a link, other files stand where the glob's would
        return glob.may_be_below(parts)
    return (gone or change.entry is not EntryKind.DIRECTORY) and glob.is_below(parts)
