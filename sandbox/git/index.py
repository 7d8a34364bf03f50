"""Writes a git index (version 2), so that the first `git status` inside needs no hashing.

Format: Documentation/gitformat-index.txt of git 2.39.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from sandbox.git.trees import TreeEntry

_HEADER: Final = struct.Struct(">4sII")
_ENTRY: Final = struct.Struct(">10I20sH")
_VERSION: Final = 2
_LONGEST_COUNTED_NAME: Final = 0xFFF
_WORD: Final = 0xFFFFFFFF
_NS: Final = 1_000_000_000


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """One tracked path and what `lstat` says of its file; zeros make git look for itself."""

    path: bytes
    tracked: TreeEntry
    ctime_ns: int = 0
    mtime_ns: int = 0
    device: int = 0
    inode: int = 0
    owner: tuple[int, int] = (0, 0)
    size: int = 0


def encode_index(entries: Iterable[IndexEntry]) -> bytes:
    """Return the bytes of an index with these entries."""
    rows = [_encode_entry(entry) for entry in sorted(entries, key=lambda entry: entry.path)]
    body = _HEADER.pack(b"DIRC", _VERSION, len(rows)) + b"".join(rows)
    return body + hashlib.sha1(body, usedforsecurity=False).digest()


def _encode_entry(entry: IndexEntry) -> bytes:
    ctime_s, ctime_ns = divmod(entry.ctime_ns, _NS)
    mtime_s, mtime_ns = divmod(entry.mtime_ns, _NS)
    uid, gid = entry.owner
    fixed = _ENTRY.pack(
        ctime_s & _WORD,
        ctime_ns,
        mtime_s & _WORD,
        mtime_ns,
        entry.device & _WORD,
        entry.inode & _WORD,
        entry.tracked.mode,
        uid,
        gid,
        entry.size & _WORD,
        bytes.fromhex(entry.tracked.oid),
        min(len(entry.path), _LONGEST_COUNTED_NAME),
    )
    row = fixed + entry.path
    return row + b"\0" * (8 - len(row) % 8)  # one to eight, so that the name always ends
