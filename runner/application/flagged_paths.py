"""Which paths of a task's patch the user's own tools would execute or obey."""

from __future__ import annotations

from typing import Final

from policies import (
    Change,
    Changes,
    FlaggedPath,
    flag_change,
    is_package_json,
    same_package_scripts,
)
from sandbox import SandboxHost, Snapshot

_READ_BYTES: Final = 1024 * 1024
"""A larger package.json is flagged unread."""


def list_flagged(
    base: Snapshot, last: Snapshot, changes: Changes, *, host: SandboxHost
) -> tuple[FlaggedPath, ...]:
    """Return the flagged paths; ignored files, which no export holds, are not looked at.

    Raises:
        SandboxError: a snapshot cannot be read.
    """
    found: list[FlaggedPath] = []
    for change in changes.items:
        flagged = None if change.ignored else flag_change(change)
        if flagged is None:
            continue
        if is_package_json(flagged) and _runs_the_same(change, (base, last), host):
            continue
        found.append(flagged)
    return tuple(found)


def _runs_the_same(change: Change, ends: tuple[Snapshot, Snapshot], host: SandboxHost) -> bool:
    if change.size_bytes > _READ_BYTES:
        return False
    name = change.path.decode("utf-8", "surrogateescape")
    before, after = (host.read_source_file(one, name) for one in ends)
    return before is not None and after is not None and same_package_scripts(before, after)
