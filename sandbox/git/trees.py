"""Git objects as values: ids of blobs and trees, and the byte form of trees."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Final, NamedTuple, Protocol

EMPTY_TREE: Final = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"

MODE_TREE: Final = 0o040000
MODE_FILE: Final = 0o100644
MODE_PROGRAM: Final = 0o100755
MODE_SYMLINK: Final = 0o120000
MODE_GITLINK: Final = 0o160000


class TreeEntry(NamedTuple):
    """One line of a git tree."""

    mode: int
    oid: str


class RunningHash(Protocol):
    """A hash that takes bytes piece by piece."""

    def update(self, data: bytes, /) -> None:
        """Take more bytes."""
        ...

    def hexdigest(self) -> str:
        """Return the digest so far."""
        ...


def new_blob_hash(size: int) -> RunningHash:
    """Return a hash that gives a blob's id once it has seen the blob's bytes."""
    return hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)


def blob_id(data: bytes) -> str:
    """Return the id that git gives to a blob."""
    return hashlib.sha1(b"blob %d\0%s" % (len(data), data), usedforsecurity=False).hexdigest()


def tree_id(entries: Mapping[bytes, TreeEntry]) -> str:
    """Return the id that git gives to a tree."""
    lines = [
        b"%o %s\0%s" % (entry.mode, name, bytes.fromhex(entry.oid))
        for name, entry in sorted(entries.items(), key=_tree_order)
    ]
    body = b"".join(lines)
    whole = b"tree %d\0%s" % (len(body), body)
    return hashlib.sha1(whole, usedforsecurity=False).hexdigest()


def parse_tree(body: bytes) -> dict[bytes, TreeEntry]:
    """Return the entries of a tree object, by name."""
    entries: dict[bytes, TreeEntry] = {}
    at = 0
    while at < len(body):
        space = body.index(b" ", at)
        end = body.index(b"\0", space)
        mode = int(body[at:space], 8)
        entries[body[space + 1 : end]] = TreeEntry(mode, body[end + 1 : end + 21].hex())
        at = end + 21
    return entries


def _tree_order(item: tuple[bytes, TreeEntry]) -> bytes:
    name, entry = item
    return name + b"/" if entry.mode == MODE_TREE else name
