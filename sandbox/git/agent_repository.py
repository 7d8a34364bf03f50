"""The agent's own `.git`, made by hand: no template, no host path, no remote, no history copied.

Objects come read-only from the base repository that the container mounts; everything that the
agent adds goes into its own `.git`, which is a part of its snapshots like any other file.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from policies import EntryKind
from sandbox.git.base import BaseTree
from sandbox.git.failures import translated_os_errors
from sandbox.git.index import IndexEntry, encode_index
from sandbox.git.manifest import WORKSPACE, Directory, Entry
from sandbox.git.names import DOT_GIT
from sandbox.git.trees import MODE_GITLINK, TreeEntry

BASE_IN_CONTAINER: Final = "/forkyard/base.git"
"""Where a container mounts its base repository."""

_CONFIG: Final = b"""[core]
\trepositoryformatversion = 0
\tfilemode = true
\tbare = false
\tlogallrefupdates = true
[user]
\tname = Forkyard agent
\temail = agent@forkyard.invalid
"""
_FOLDERS: Final = (
    b"objects",
    b"objects/info",
    b"objects/pack",
    b"refs",
    b"refs/heads",
    b"refs/tags",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentRepository:
    """What an agent's fresh `.git` is made from."""

    base: BaseTree
    shallow: bytes
    """Content of the base repository's `shallow` file; empty where its history is whole."""
    owner: tuple[int, int]

    def write(self, workspace: int, directories: Mapping[bytes, Directory]) -> None:
        """Make `.git` in a workspace that has none.

        Args:
            workspace: descriptor of the workspace.
            directories: the workspace's files as they were just written.

        Raises:
            SnapshotError, DiskFullError: it cannot be written.
        """
        with translated_os_errors("making the agent's .git"):
            os.mkdir(DOT_GIT, 0o755, dir_fd=workspace)
            top = os.open(DOT_GIT, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=workspace)
            try:
                self._adopt(top)
                for folder in _FOLDERS:
                    os.mkdir(folder, 0o755, dir_fd=top)
                    self._adopt_name(top, folder)
                for name, content in self._files():
                    self._write_file(top, name, content)
                self._write_file(top, b"index", self._index(workspace, directories))
            finally:
                os.close(top)

    def _files(self) -> Iterable[tuple[bytes, bytes]]:
        commit = self.base.commit.encode()
        yield b"HEAD", b"ref: refs/heads/main\n"
        yield b"config", _CONFIG
        head = b"# pack-refs with: peeled fully-peeled sorted \n"
        yield b"packed-refs", head + commit + b" refs/heads/main\n"
        yield b"objects/info/alternates", BASE_IN_CONTAINER.encode() + b"/objects\n"
        if self.shallow:
            yield b"shallow", self.shallow

    def _index(self, workspace: int, directories: Mapping[bytes, Directory]) -> bytes:
        device = os.fstat(workspace).st_dev
        return encode_index(
            self._index_entry(path, entry, device, directories)
            for path, entry in self.base.paths.items()
        )

    def _index_entry(
        self, path: bytes, tracked: TreeEntry, device: int, directories: Mapping[bytes, Directory]
    ) -> IndexEntry:
        above, _, name = (WORKSPACE + b"/" + path).rpartition(b"/")
        directory = directories.get(above)
        entry = directory.entries.get(name) if directory is not None else None
        if tracked.mode == MODE_GITLINK or entry is None or not _is_file_of(entry, tracked):
            return IndexEntry(path, tracked)
        inode, size, mtime_ns, ctime_ns, *_ = entry.signature
        return IndexEntry(
            path,
            tracked,
            ctime_ns=ctime_ns,
            mtime_ns=mtime_ns,
            device=device,
            inode=inode,
            owner=self.owner,
            size=size,
        )

    def _write_file(self, top: int, name: bytes, content: bytes) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(name, flags, 0o644, dir_fd=top), "wb") as file:
            file.write(content)
            os.fchmod(file.fileno(), 0o644)
            self._adopt(file.fileno())

    def _adopt(self, descriptor: int) -> None:
        if os.geteuid() == 0:
            os.fchown(descriptor, *self.owner)

    def _adopt_name(self, top: int, name: bytes) -> None:
        if os.geteuid() == 0:
            os.chown(name, *self.owner, dir_fd=top, follow_symlinks=False)


def _is_file_of(entry: Entry, tracked: TreeEntry) -> bool:
    return entry.kind is not EntryKind.DIRECTORY and entry.oid == tracked.oid
