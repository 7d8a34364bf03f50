"""Files of the in-memory double: what a snapshot holds, how two differ, as git would say it."""

from __future__ import annotations

import difflib
import hashlib
import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from policies import (
    Change,
    ChangeKind,
    Changes,
    EntryKind,
    Json,
    digest_json,
    match_path,
    show_path,
)

WORKSPACE = "/workspace"
_ROOTS = {WORKSPACE: "workspace", "/home/agent": "home", "/tmp": "tmp"}  # noqa: S108 - inside


@dataclass(frozen=True, slots=True)
class MemoryEntry:
    """One file or link."""

    data: bytes
    """Bytes of a file, or a link's target."""
    mode: int = 0o644
    is_link: bool = False

    @property
    def object_id(self) -> str:
        """What git calls these bytes."""
        header = b"blob %d\0" % len(self.data)
        return hashlib.sha1(header + self.data, usedforsecurity=False).hexdigest()

    @property
    def shown_content(self) -> str:
        """What a change says of it: the target of a link, otherwise the object id."""
        return show_path(self.data) if self.is_link else self.object_id


class MemoryFiles:
    """The files of one sandbox by their absolute names inside. Directories are implied."""

    def __init__(self, entries: Mapping[str, MemoryEntry]) -> None:
        self._entries = dict(entries)

    def read(self, path: str) -> bytes | None:
        """Return a file's bytes, or None if there is none."""
        entry = self._entries.get(_key(path))
        return None if entry is None or entry.is_link else entry.data

    def write(self, path: str, data: bytes, *, mode: int = 0) -> None:
        """Write a file; mode 0 keeps the old one's."""
        old = self._entries.get(_key(path))
        kept = old.mode if old is not None else 0o644
        self._entries[_key(path)] = MemoryEntry(data, mode or kept)

    def link(self, path: str, target: str) -> None:
        """Make a symbolic link; it is never followed."""
        self._entries[_key(path)] = MemoryEntry(target.encode(), 0o777, is_link=True)

    def delete(self, path: str) -> bool:
        """Delete a file, or a directory with all in it; return False if there was none."""
        key = _key(path)
        found = [name for name in self._entries if name == key or name.startswith(f"{key}/")]
        for name in found:
            del self._entries[name]
        return bool(found)

    def list_names(self, directory: str) -> tuple[str, ...]:
        """Return the names of all files below a directory, relative to it, in order."""
        prefix = f"{_key(directory)}/"
        found = (name for name in self._entries if name.startswith(prefix))
        return tuple(sorted(name.removeprefix(prefix) for name in found))

    def freeze(self) -> Mapping[str, MemoryEntry]:
        """Return what is there now, by `workspace/…`, `home/…`, `tmp/…`."""
        return dict(self._entries)


def make_content_id(entries: Mapping[str, MemoryEntry]) -> str:
    """Return the id over names, bytes, modes and links."""
    rows: list[Json] = [
        [name, entry.object_id, entry.mode, entry.is_link]
        for name, entry in sorted(entries.items())
    ]
    return digest_json(rows)


def select_source(
    entries: Mapping[str, MemoryEntry],
    base: Mapping[str, MemoryEntry],
    aside: frozenset[str] = frozenset(),
) -> Mapping[str, MemoryEntry]:
    """Return `source_tree`: tracked in the base, or new and not ignored by the base's rules.

    Args:
        entries: all files.
        base: the base commit's.
        aside: further names that count as ignored.
    """
    rules = _read_ignore_rules(base)
    return {
        name: entry
        for name, entry in entries.items()
        if name.startswith("workspace/")
        and name not in aside
        and (name in base or not _is_ignored(name.removeprefix("workspace/"), rules))
    }


def diff_workspaces(
    before: Mapping[str, MemoryEntry],
    after: Mapping[str, MemoryEntry],
    in_source: frozenset[str],
) -> Changes:
    """Return what changed below `workspace/`; what is not in the source is marked as ignored."""
    return Changes.of(_diff(before, after, in_source))


def make_memory_patch(base: Mapping[str, MemoryEntry], source: Mapping[str, MemoryEntry]) -> bytes:
    """Return a unified diff; of bytes that are no text, only that they differ."""
    lines: list[bytes] = []
    for name in sorted({*base, *source}):
        old, new = base.get(name), source.get(name)
        if name.startswith("workspace/") and old != new:
            lines += _diff_file(name.removeprefix("workspace/").encode(), old, new)
    return b"".join(lines)


def _key(path: str) -> str:
    for root, name in _ROOTS.items():
        if path == root or path.startswith(f"{root}/"):
            return posixpath.normpath(name + path[len(root) :])
    return path.lstrip("/")


def _diff(
    before: Mapping[str, MemoryEntry],
    after: Mapping[str, MemoryEntry],
    in_source: frozenset[str],
) -> Iterator[Change]:
    for name in {*before, *after}:
        old, new = before.get(name), after.get(name)
        kind = _kind_of(old, new)
        if kind is None or not name.startswith("workspace/"):
            continue
        path = name.removeprefix("workspace/")
        shown = new or old
        is_link = shown is not None and shown.is_link
        yield Change(
            path=path.encode(),
            kind=kind,
            entry=EntryKind.SYMLINK if is_link else EntryKind.FILE,
            size_bytes=0 if new is None else len(new.data),
            content="" if new is None else new.shown_content,
            mode=0 if new is None else new.mode,
            ignored=name not in in_source,
        )


def _kind_of(old: MemoryEntry | None, new: MemoryEntry | None) -> ChangeKind | None:
    if old == new:
        return None
    if old is None:
        return ChangeKind.ADDED
    if new is None:
        return ChangeKind.DELETED
    same = (old.data, old.is_link) == (new.data, new.is_link)
    return ChangeKind.MODE if same else ChangeKind.MODIFIED


def _read_ignore_rules(base: Mapping[str, MemoryEntry]) -> tuple[str, ...]:
    entry = base.get("workspace/.gitignore")
    lines = entry.data.decode().splitlines() if entry is not None else []
    return tuple(line for line in lines if line and not line.startswith("#"))


def _is_ignored(path: str, rules: tuple[str, ...]) -> bool:
    return any(
        match_path(f"**/{rule.strip('/')}", path) or _is_below(path, rule) for rule in rules
    )


def _is_below(path: str, rule: str) -> bool:
    return match_path(f"**/{rule.strip('/')}/**", path)


def _diff_file(path: bytes, old: MemoryEntry | None, new: MemoryEntry | None) -> list[bytes]:
    a = old.data.splitlines(keepends=True) if old is not None else []
    b = new.data.splitlines(keepends=True) if new is not None else []
    before = b"a/" + path if old is not None else b"/dev/null"
    after = b"b/" + path if new is not None else b"/dev/null"
    header = [b"diff --git a/%s b/%s\n" % (path, path)]
    return header + list(difflib.diff_bytes(difflib.unified_diff, a, b, before, after))
