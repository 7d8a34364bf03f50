"""A live, writable copy of a snapshot on a mounted volume."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

from policies import Changes, show_path
from sandbox.errors import SnapshotError
from sandbox.git.agent_repository import AgentRepository
from sandbox.git.base import BaseTree, IgnoreRules
from sandbox.git.differences import make_changes
from sandbox.git.manifest import (
    ROOTS,
    DirectoryDelta,
    TreeState,
    identify,
    make_identity,
    make_origin,
)
from sandbox.git.objects import ObjectReader
from sandbox.git.reading import SnapshotParts, get_parts, load_state
from sandbox.git.recording import (
    CommitPlan,
    ExtraBlobs,
    RecordedTrees,
    SourceRule,
    record,
    unjudged_paths,
)
from sandbox.git.repositories import GitRepositories
from sandbox.git.restoring import Restorer
from sandbox.git.stream import FastImport
from sandbox.git.walker import HashingSink, Walked, WalkLimits, walk
from sandbox.snapshot import CommitId, Coverage, LeftOut, Snapshot, SnapshotId, SnapshotTaken

IgnoredAmong: TypeAlias = Callable[[Iterable[bytes]], frozenset[bytes]]
"""Returns those of some new workspace paths that count as ignored."""

_NOT_COVERED_YET = ("hard links", "extended attributes")


@dataclass(frozen=True, slots=True)
class WorkspacePaths:
    """Where the parts of a volume are on the host."""

    workspace: Path
    home: Path
    tmp: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceSetting:
    """What stays the same as long as a workspace lives."""

    directory: Path
    task_id: str
    owner: tuple[int, int]
    repositories: GitRepositories
    base: BaseTree
    rules: IgnoreRules
    limits: WalkLimits


@dataclass(frozen=True, slots=True)
class _Standing:
    """What the live files were when we last knew them."""

    snapshot: Snapshot
    parts: SnapshotParts
    state: TreeState
    extras: ExtraBlobs


class GitWorkspace:
    """Takes snapshots of a volume and rolls it back. Used by one thread at a time."""

    def __init__(self, setting: WorkspaceSetting, *, start: Snapshot) -> None:
        """Fill an empty volume with a snapshot.

        Raises:
            SnapshotError: the restored files do not give the snapshot's id.
            RepositoryError, DiskFullError: the snapshot cannot be read or written.
        """
        self._setting = setting
        self._ref = f"refs/forkyard/{setting.task_id}"
        with self._open_reader(start) as reader:
            parts = get_parts(reader, start)
            self._standing = self._restore(reader, start, parts, former=TreeState())
            tip = reader.find(self._ref)
            self._tip = tip.oid if tip is not None else start.commit

    @property
    def paths(self) -> WorkspacePaths:
        """Where the parts of the volume are on the host."""
        top = self._setting.directory
        return WorkspacePaths(top / "workspace", top / "home", top / "tmp")

    @property
    def snapshot(self) -> Snapshot:
        """The snapshot that was last taken or restored."""
        return self._standing.snapshot

    def take_snapshot(self) -> SnapshotTaken:
        """Record the files as they are now; nothing may be running.

        Raises:
            SnapshotError: the files cannot be recorded whole; nothing was recorded.
            DiskFullError: the host has no room for it.
            RepositoryError: git failed.
        """
        return self._take(self._setting.rules.ignored_among)

    def take_start(self) -> SnapshotTaken:
        """Record the files as what tasks start from: all that is new counts as ignored.

        Raises:
            SnapshotError, DiskFullError, RepositoryError: as take_snapshot.
        """
        return self._take(frozenset)

    def _take(self, ignored_among: IgnoredAmong) -> SnapshotTaken:
        before = self._standing
        repository = before.snapshot.repository_id
        with self._setting.repositories.writing(repository, self._ref) as stream:
            walked = self._walk(before.state, stream)
            state = self._judged(walked, ignored_among)
            coverage = _make_coverage(state)
            if walked.deltas:
                self._standing = self._record(stream, walked.deltas, state, coverage)
            else:
                snapshot = replace(before.snapshot, coverage=coverage)
                self._standing = replace(before, snapshot=snapshot, state=state)
        return SnapshotTaken(
            snapshot=self._standing.snapshot,
            changes=self._changes(walked.deltas, before.snapshot.coverage),
        )

    def restore(self, snapshot: Snapshot) -> None:
        """Roll the live files back, rewriting only what differs; nothing may be running.

        Raises:
            SnapshotError: it belongs to another base, or the files do not give its id.
            RepositoryError, DiskFullError: the snapshot cannot be read or written.
        """
        with self._open_reader(snapshot) as reader:
            parts = get_parts(reader, snapshot)
            former = self._standing.state
            self._standing = self._restore(reader, snapshot, parts, former=former)

    def lay(self, target: TreeState) -> None:
        """Bring the files, just restored, to a state that is no snapshot.

        What is known of the files stays the snapshot: the next one is told from there.

        Raises:
            SnapshotError, RepositoryError, DiskFullError: it cannot be read or written.
        """
        with self._open_reader(self._standing.snapshot) as reader:
            written = self._bring(reader, self._standing.state, target)
            _check_contents(written, target)

    @property
    def state(self) -> TreeState:
        """The files as they were last known."""
        return self._standing.state

    def _open_reader(self, snapshot: Snapshot) -> ObjectReader:
        if snapshot.base_commit != self._setting.base.commit:
            raise SnapshotError(
                f"{snapshot.snapshot_id} starts from {snapshot.base_commit},"
                f" this workspace from {self._setting.base.commit}"
            )
        return self._setting.repositories.open_reader(snapshot.repository_id)

    def _walk(self, former: TreeState, sink: FastImport | HashingSink) -> Walked:
        top = os.open(self._setting.directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            return walk(top, former, sink=sink, limits=self._setting.limits)
        finally:
            os.close(top)

    def _judged(self, walked: Walked, ignored_among: IgnoredAmong) -> TreeState:
        """Ask which of the new paths are ignored; old ones stay what they are."""
        unjudged = unjudged_paths(walked.deltas, self._setting.base)
        newly = ignored_among(unjudged)
        kept = walked.state.ignored.difference(unjudged)
        return replace(walked.state, ignored=kept | newly)

    def _record(
        self,
        stream: FastImport,
        deltas: tuple[DirectoryDelta, ...],
        state: TreeState,
        coverage: Coverage,
    ) -> _Standing:
        before = self._standing
        continues = self._tip == before.snapshot.commit
        plan = CommitPlan(
            ref=self._ref,
            parent=self._tip,
            reset_to_tree="" if continues else before.parts.tree,
            at_seconds=int(time.time()),
        )
        extras = before.extras.copy()
        rule = SourceRule(self._setting.base, state.ignored)
        trees = record(stream, plan, deltas=deltas, rule=rule, extras=extras)
        self._tip = trees.commit
        snapshot = make_snapshot(before.snapshot, trees, coverage)
        return _Standing(snapshot, parts_of(trees), state, extras)

    def _restore(
        self, reader: ObjectReader, snapshot: Snapshot, parts: SnapshotParts, *, former: TreeState
    ) -> _Standing:
        self._make_roots()
        target = load_state(reader, parts, self._setting.base)
        live = self._walk(former, HashingSink()).state
        spared = [one.path for one in snapshot.coverage.left_out]
        written = self._bring(reader, live, target, spared=spared)
        origin = make_origin(snapshot.repository_id, snapshot.base_commit)
        found = identify(written, origin).snapshot_id
        if found != snapshot.snapshot_id:
            raise SnapshotError(f"restoring {snapshot.snapshot_id} gave {found}")
        if parts.is_start:
            self._make_agent_repository(snapshot, written)
        return _Standing(snapshot, parts, written, ExtraBlobs.of(written))

    def _make_agent_repository(self, snapshot: Snapshot, state: TreeState) -> None:
        base = self._setting.repositories.base_repository(
            snapshot.repository_id, snapshot.base_commit, snapshot.history
        )
        shallow = base / "shallow"
        maker = AgentRepository(
            base=self._setting.base,
            shallow=shallow.read_bytes() if shallow.exists() else b"",
            owner=self._setting.owner,
        )
        workspace = os.open(self.paths.workspace, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            maker.write(workspace, state.directories)
        finally:
            os.close(workspace)

    def _bring(
        self,
        reader: ObjectReader,
        live: TreeState,
        target: TreeState,
        *,
        spared: Collection[str] = (),
    ) -> TreeState:
        top = os.open(self._setting.directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            restorer = Restorer(reader, top=top, owner=self._setting.owner, spared=spared)
            return restorer.bring(live, target)
        finally:
            os.close(top)

    def _make_roots(self) -> None:
        for root in ROOTS:
            (self._setting.directory / os.fsdecode(root)).mkdir(exist_ok=True)

    def _changes(self, deltas: Iterable[DirectoryDelta], coverage_before: Coverage) -> Changes:
        after = self._standing
        rule = SourceRule(self._setting.base, after.state.ignored)
        return make_changes(
            deltas, rule.holds, left_out=(coverage_before, after.snapshot.coverage)
        )


def make_snapshot(like: Snapshot, trees: RecordedTrees, coverage: Coverage) -> Snapshot:
    """Return the snapshot of what was just recorded, for the base of another one."""
    identity = make_identity(
        manifest_tree=trees.manifest_tree,
        times_tree=trees.times_tree,
        origin=make_origin(like.repository_id, like.base_commit),
    )
    return replace(
        like,
        snapshot_id=SnapshotId(identity.snapshot_id),
        content_id=identity.content_id,
        commit=CommitId(trees.commit),
        source_tree=trees.source_tree,
        full_tree=trees.full_tree,
        coverage=coverage,
    )


def parts_of(trees: RecordedTrees) -> SnapshotParts:
    """Return the parts of a snapshot that was just recorded."""
    return SnapshotParts(
        is_start=False,
        tree=trees.tree,
        source_tree=trees.source_tree,
        full_tree=trees.full_tree,
        manifest_tree=trees.manifest_tree,
        times_tree=trees.times_tree,
    )


def empty_coverage() -> Coverage:
    """Return the coverage of a snapshot that leaves nothing out."""
    return Coverage(not_covered=(*Coverage().not_covered, *_NOT_COVERED_YET))


def _make_coverage(state: TreeState) -> Coverage:
    left_out = [
        LeftOut(path=show_path(path + b"/" + name), reason=reason)
        for path, directory in state.directories.items()
        for name, reason in directory.left_out.items()
    ]
    left_out.sort(key=lambda one: one.path)
    return replace(empty_coverage(), left_out=tuple(left_out))


def _check_contents(written: TreeState, target: TreeState) -> None:
    """Compare what was written with what should have been, bytes and modes."""
    for path, want in target.directories.items():
        entries = written.directories[path].entries
        for name, entry in want.entries.items():
            if not entry.same_content(entries.get(name)) or entries[name].mode != entry.mode:
                raise SnapshotError(f"laying {path + b'/' + name!r} gave other bytes")
