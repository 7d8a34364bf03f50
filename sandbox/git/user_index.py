"""Reads what `git ls-files --stage --debug -z` tells of a user's index, with no look at files."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from sandbox.git.trees import TreeEntry

Stamp: TypeAlias = tuple[int, int, int, int]
"""Change time and modification time in nanoseconds, inode, size: each as git's index cuts it."""

LISTING: Final = ("ls-files", "--stage", "--debug", "-z")

_DEBUG_LINES: Final = 5
_NUMBERS: Final = re.compile(
    rb"\s*ctime: (\d+):(\d+)\s+mtime: (\d+):(\d+)\s+dev: \d+\s+ino: (\d+)"
    rb"\s+uid: \d+\s+gid: \d+\s+size: (\d+)\s+flags: ([0-9a-f]+)"
)
_NO_STAMP: Final = (-1, -1, -1, -1)
_SKIPPED: Final = 0x4000_0000  # git's CE_SKIP_WORKTREE: outside a sparse checkout
_WORD: Final = 0xFFFF_FFFF
_SECOND_NS: Final = 1_000_000_000


@dataclass(frozen=True, slots=True)
class IndexedFile:
    """One path of an index."""

    entry: TreeEntry
    stamp: Stamp
    """What the file was like when git last looked."""
    skipped: bool
    """Outside a sparse checkout, so that its file may be missing."""

    def trusted_before(self, written_at_ns: int) -> IndexedFile:
        """Return it without a stamp where a later change of the file could have the same one."""
        return self if self.stamp[1] < written_at_ns else replace(self, stamp=_NO_STAMP)


def stamp_of(status: os.stat_result) -> Stamp:
    """Return what an index would say of a file."""
    seconds = tuple(
        (at // _SECOND_NS & _WORD) * _SECOND_NS + at % _SECOND_NS
        for at in (status.st_ctime_ns, status.st_mtime_ns)
    )
    return (*seconds, status.st_ino & _WORD, status.st_size & _WORD)  # type: ignore[return-value]


def parse_listing(listing: bytes) -> dict[bytes, IndexedFile]:
    """Return the paths of an index; of a conflict's versions the last one stands for all."""
    found: dict[bytes, IndexedFile] = {}
    for header, debug in _split(listing):
        line, _, path = header.partition(b"\t")
        mode, oid, _ = line.split(b" ")
        stamp, skipped = _parse_debug(debug)
        found[path] = IndexedFile(TreeEntry(int(mode, 8), oid.decode("ascii")), stamp, skipped)
    return found


def _split(listing: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield each path's line and the lines on its state, which follow without a NUL."""
    header, *rest = listing.split(b"\0")
    for part in rest:
        lines = part.split(b"\n", _DEBUG_LINES)
        yield header, b"\n".join(lines[:_DEBUG_LINES])
        header = lines[-1]


def _parse_debug(debug: bytes) -> tuple[Stamp, bool]:
    """Return stamp and sparseness; a form that another git prints is no stamp: files are read."""
    numbers = _NUMBERS.match(debug)
    if numbers is None:
        return _NO_STAMP, False
    changed, changed_ns, modified, modified_ns, inode, size = (
        int(number) for number in numbers.groups()[:6]
    )
    stamp = (changed * _SECOND_NS + changed_ns, modified * _SECOND_NS + modified_ns, inode, size)
    return stamp, bool(int(numbers.group(7), 16) & _SKIPPED)
