"""Makes workspaces from snapshots, compares snapshots, and exports them."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from policies import Changes
from sandbox.errors import PatchTooLargeError, SnapshotError
from sandbox.git.base import BaseTree, read_base_tree
from sandbox.git.branch import BranchExporter
from sandbox.git.checkout import CheckoutWriter
from sandbox.git.differences import make_changes
from sandbox.git.failures import translated_os_errors
from sandbox.git.laying import LaidFile, lay_over, list_laid_paths, make_laid_entry
from sandbox.git.live_workspace import (
    GitWorkspace,
    WorkspaceSetting,
    empty_coverage,
)
from sandbox.git.manifest import DirectoryDelta, Entry, make_origin
from sandbox.git.objects import ObjectReader
from sandbox.git.patch import quote_headers
from sandbox.git.reading import (
    ManifestReader,
    SnapshotParts,
    TreeLookup,
    changed_keys,
    find_parts,
    get_parts,
    read_source_blob,
)
from sandbox.git.removal import remove_entry
from sandbox.git.repositories import GitRepositories
from sandbox.git.starting import make_start_state, record_start, start_ref
from sandbox.git.trees import MODE_GITLINK, MODE_SYMLINK
from sandbox.git.walker import WalkLimits
from sandbox.git.worktrees import Worktrees
from sandbox.sandbox import LaidSource
from sandbox.snapshot import CommitId, RepositoryId, Snapshot, SnapshotId
from sandbox.source import ImportedSource

_TASK_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_ROOT_NAMES: Final = (b"workspace", b"home", b"tmp")
_SET_ASIDE: Final = b"workspace.ended"
_BASES_KEPT: Final = 8
_PATCH_BYTES: Final = 128 * 1024 * 1024


class GitWorkspaces:
    """Everything about files that the sandbox needs; used by any number of threads."""

    def __init__(
        self,
        repositories: GitRepositories,
        *,
        owner: tuple[int, int],
        limits: WalkLimits | None = None,
        patch_bytes: int = _PATCH_BYTES,
    ) -> None:
        """Remember the rules; nothing is made yet.

        Args:
            repositories: where objects and entries live.
            owner: uid and gid that files get; ours, unless we are root.
            limits: how much a snapshot takes in.
            patch_bytes: how large a patch may be, which is held in memory whole.
        """
        self._repositories = repositories
        self._worktrees = Worktrees(repositories)
        self._owner = owner
        self._limits = limits or WalkLimits()
        self._patch_bytes = patch_bytes
        self._bases: dict[str, BaseTree] = {}
        self._bases_lock = threading.Lock()

    def start_snapshot(self, imported: ImportedSource, *, task_id: str) -> Snapshot:
        """Return the snapshot of an untouched checkout; restoring it makes a fresh `.git`.

        Raises:
            RepositoryError, DiskFullError: it cannot be recorded.
            SnapshotError: the source is not on this host.
        """
        _check_task_id(task_id)
        repository, commit = imported.repository_id, imported.commit
        with self._repositories.open_reader(repository) as reader:
            found = find_parts(reader, start_ref(commit))
            if found is None:
                base = self._base(reader, repository, commit)
                self._record_start(repository, base, reader)
        with self._repositories.open_reader(repository) as reader:
            parts = find_parts(reader, start_ref(commit))
            if parts is None:
                raise SnapshotError(f"the start snapshot of {commit} vanished")
            return _start_of(imported, parts, reader.get(start_ref(commit)).oid)

    @contextmanager
    def open_workspace(
        self,
        directory: Path,
        *,
        task_id: str,
        start: Snapshot,
        lay: LaidSource | None = None,
        register: bool = True,
        erase: bool = True,
    ) -> Iterator[GitWorkspace]:
        """Fill an empty volume with a snapshot; leaving the context ends and deletes it.

        Args:
            directory: an empty directory, or the root of an empty mounted volume.
            task_id: names the ref that later snapshots go to.
            start: what to restore.
            lay: another source tree to put over it.
            register: make a worktree entry in `snapshots.git`.
            erase: delete the files at the end; False leaves that to who discards the volume.

        Raises:
            SnapshotError: it cannot be restored exactly.
            RepositoryError, DiskFullError: git or the disk failed; nothing is left behind.
        """
        _check_task_id(task_id)
        place = Path(os.path.realpath(directory))
        try:
            if register:
                self._worktrees.add(
                    start.repository_id, place / "workspace", task_id=task_id, commit=start.commit
                )
            yield self._fill(place, task_id, start, lay)
        finally:
            _clear(place, erase=erase)
            if register:
                self._worktrees.end(start.repository_id, place / "workspace")

    def prune(self, directory: Path) -> int:
        """Delete what a dead task left in its volume, and end its worktree entries.

        Args:
            directory: where the volume is or was; its `workspace`, `home` and `tmp` are deleted.

        Returns:
            How many entries were ended.

        Raises:
            SnapshotError: something cannot be deleted.
        """
        place = Path(os.path.realpath(directory))
        if place.is_dir():
            _clear(place, erase=True)
        return self._worktrees.end_below(place)

    def changes_between(self, before: Snapshot, after: Snapshot) -> Changes:
        """Compare the workspaces of two snapshots of one repository.

        Raises:
            SnapshotError: one of them is missing, or they are of different repositories.
        """
        if before.repository_id != after.repository_id:
            raise SnapshotError("snapshots of different repositories cannot be compared")
        with self._repositories.open_reader(before.repository_id) as reader:
            old, new = get_parts(reader, before), get_parts(reader, after)
            manifests = ManifestReader(reader)
            keys = changed_keys(manifests.lookup, old.manifest_tree, new.manifest_tree)
            deltas = [_delta(manifests, key, (old, new)) for key in sorted(keys)]

            def in_source(path: bytes, entry: Entry) -> bool:
                del entry
                return _is_in(manifests.lookup, (old, new), path)

            return make_changes(deltas, in_source, left_out=(before.coverage, after.coverage))

    def make_patch(self, snapshot: Snapshot) -> bytes:
        """Return the patch that turns the base commit into `source_tree` exactly.

        Raises:
            RepositoryError: a tree is missing.
            PatchTooLargeError: it is larger than a patch may be.
        """
        options = ["-r", "-p", "--binary", "--full-index", "--no-renames", "--no-ext-diff"]
        options += ["--no-textconv", "--no-color", "--src-prefix=a/", "--dst-prefix=b/"]
        target = self._repositories.snapshots_repository(snapshot.repository_id)
        base = f"{snapshot.base_commit}^{{tree}}"
        patch = self._repositories.git.run_limited(
            target,
            ["diff-tree", *options, base, snapshot.source_tree, "--"],
            limit_bytes=self._patch_bytes,
        )
        if patch is None:
            raise PatchTooLargeError(self._patch_bytes)
        return quote_headers(patch)

    def export_branch(
        self, snapshot: Snapshot, repository: str, *, branch: str, message: str
    ) -> CommitId:
        """Make a branch in a user's repository from `source_tree`.

        Raises:
            BranchExistsError: there is one of that name.
            SourceError: no repository, or no valid branch name.
        """
        return BranchExporter(self._repositories).export(
            snapshot, repository, branch=branch, message=message
        )

    def apply_to_checkout(self, snapshot: Snapshot, repository: str) -> tuple[bytes, ...]:
        """Write what `source_tree` changes into a user's checkout, or nothing.

        Raises:
            CheckoutConflictError: something of the user's is in the way.
            SourceError: there is no checkout, or it cannot be written.
        """
        return CheckoutWriter(self._repositories).apply(snapshot, repository)

    def read_source_file(self, snapshot: Snapshot, path: str) -> bytes | None:
        """Return the bytes of a regular file of `source_tree`, or None if there is none.

        Raises:
            RepositoryError: the snapshot's objects are missing.
        """
        name = path.encode("utf-8", "surrogateescape")
        with self._repositories.open_reader(snapshot.repository_id) as reader:
            return read_source_blob(reader, snapshot.source_tree, name)

    def _fill(
        self, place: Path, task_id: str, start: Snapshot, lay: LaidSource | None
    ) -> GitWorkspace:
        with self._repositories.open_reader(start.repository_id) as reader:
            base = self._base(reader, start.repository_id, start.base_commit)
            rules = self._repositories.ignore_rules(start.repository_id, base, reader)
            setting = WorkspaceSetting(
                directory=place,
                task_id=task_id,
                owner=self._owner,
                repositories=self._repositories,
                base=base,
                rules=rules,
                limits=self._limits,
            )
            workspace = GitWorkspace(setting, start=start)
            if lay is not None:
                files = _list_laid_files(reader, start, lay)
                workspace.lay(lay_over(workspace.state, files))
            return workspace

    def _base(self, reader: ObjectReader, repository: RepositoryId, commit: CommitId) -> BaseTree:
        key = f"{repository}/{commit}"
        with self._bases_lock:
            known = self._bases.get(key)
        if known is not None:
            return known
        base = read_base_tree(reader, commit)
        with self._bases_lock:
            while len(self._bases) >= _BASES_KEPT:
                self._bases.pop(next(iter(self._bases)))
            self._bases[key] = base
        return base

    def _record_start(
        self, repository: RepositoryId, base: BaseTree, reader: ObjectReader
    ) -> None:
        state = make_start_state(base, reader)
        with self._repositories.writing(repository, start_ref(base.commit)) as stream:
            record_start(stream, base, state)


def _start_of(imported: ImportedSource, parts: SnapshotParts, commit: str) -> Snapshot:
    identity = parts.identity(make_origin(imported.repository_id, imported.commit))
    return Snapshot(
        snapshot_id=SnapshotId(identity.snapshot_id),
        content_id=identity.content_id,
        repository_id=imported.repository_id,
        base_commit=imported.commit,
        history=imported.history,
        commit=CommitId(commit),
        source_tree=parts.source_tree,
        full_tree=parts.full_tree,
        coverage=empty_coverage(),
    )


def _delta(
    manifests: ManifestReader, key: bytes, parts: tuple[SnapshotParts, SnapshotParts]
) -> DirectoryDelta:
    old, new = (manifests.find(one, key) for one in parts)
    path = (old or new or (b"", None))[0]
    return DirectoryDelta(path, old[1] if old else None, new[1] if new else None)


def _is_in(lookup: TreeLookup, parts: tuple[SnapshotParts, SnapshotParts], path: bytes) -> bool:
    found = (lookup.find(one.source_tree, path) for one in parts)
    return any(entry is not None and entry.mode != MODE_GITLINK for entry in found)


def _list_laid_files(reader: ObjectReader, start: Snapshot, lay: LaidSource) -> list[LaidFile]:
    ours = reader.walk_tree(start.source_tree)
    theirs = reader.walk_tree(lay.snapshot.source_tree)
    files: list[LaidFile] = []
    for path in list_laid_paths(ours, theirs, lay.restore):
        tracked = theirs.get(path)
        if tracked is None:
            files.append(LaidFile(path, None))
        elif tracked.mode != MODE_GITLINK:
            body = reader.get(tracked.oid).read() if tracked.mode == MODE_SYMLINK else b""
            size = reader.sizes([tracked.oid])[tracked.oid]
            files.append(LaidFile(path, make_laid_entry(tracked, (size, body))))
    return files


def _clear(place: Path, *, erase: bool) -> None:
    """Take the workspace away from its path, so that its entry can end.

    A volume's root cannot be removed while it is mounted; its owner does that.
    """
    if not place.is_dir():
        return  # a reaper took the volume of a lapsed attempt
    with translated_os_errors(f"deleting {place}"):
        top = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            if not erase:
                _set_aside(top)
                return
            for name in (*_ROOT_NAMES, _SET_ASIDE):
                remove_entry(top, name)
        finally:
            os.close(top)
    with suppress(OSError):  # mounted, or holding what is not ours, such as lost+found
        place.rmdir()


def _set_aside(top: int) -> None:
    with suppress(FileNotFoundError):
        os.rename(b"workspace", _SET_ASIDE, src_dir_fd=top, dst_dir_fd=top)


def _check_task_id(task_id: str) -> None:
    if _TASK_ID.fullmatch(task_id) is None:
        raise SnapshotError(f"{task_id!r} is no task id")
