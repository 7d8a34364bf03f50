"""The in-memory double of SandboxHost: deterministic, spends no time, fails when told to."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum

from policies import Changes, digest_json, parse_glob
from sandbox.command import Command, CommandResult, Ending, StopSignal
from sandbox.docker.specification import refuse_unenforced
from sandbox.errors import (
    ImageMissingError,
    SandboxLostError,
    SnapshotError,
    SourceError,
)
from sandbox.sandbox import LaidSource, Room, Sandbox, SandboxSpec
from sandbox.snapshot import CommitId, RepositoryId, Snapshot, SnapshotId, SnapshotTaken
from sandbox.source import ImportedSource, Source
from sandbox.testing_files import (
    MemoryEntry,
    MemoryFiles,
    diff_workspaces,
    make_content_id,
    make_memory_patch,
    select_source,
)
from sandbox.testing_programs import (
    FakeProgram,
    ProgramCall,
    ProgramOutcome,
    make_result,
    run_program,
)
from sandbox.testing_repositories import MemoryUserRepository
from sandbox.vetting import vet_command

Entries = Mapping[str, MemoryEntry]

_ENVIRONMENT = {"HOME": "/home/agent", "LANG": "C.UTF-8", "TZ": "UTC"}


class FaultPoint(StrEnum):
    """Where a fault strikes."""

    #: when the engine is asked for a sign of life
    ENGINE = "engine"
    #: before a sandbox is made
    OPEN = "open"
    #: before a command has any effect
    BEFORE_RUN = "before_run"
    #: after a command's effect, before its result is known
    AFTER_RUN = "after_run"
    #: before a snapshot is recorded
    SNAPSHOT = "snapshot"
    #: before files are put back
    RESTORE = "restore"


class SimulatedCrash(BaseException):
    """The runner is killed at this point: nothing is cleaned up."""


@dataclass(slots=True)
class Fault:
    """One fault to come."""

    point: FaultPoint
    error: BaseException
    """Raised there: an error of the port, or SimulatedCrash."""
    skip: int = 0
    """How often the point is passed unharmed before."""


@dataclass(slots=True)
class MemoryStore:
    """What outlives a sandbox: snapshots by their commit."""

    entries: dict[CommitId, Entries] = field(default_factory=dict)
    bases: dict[tuple[RepositoryId, CommitId], Entries] = field(default_factory=dict)
    aside: dict[CommitId, frozenset[str]] = field(default_factory=dict)
    """Names that a setup made: ignored in its snapshot and in those that follow it."""

    def get(self, snapshot: Snapshot) -> Entries:
        """Return a snapshot's files.

        Raises:
            SnapshotError: there is no such snapshot.
        """
        found = self.entries.get(snapshot.commit)
        if found is None:
            raise SnapshotError(f"commit {snapshot.commit} of {snapshot.snapshot_id} is missing")
        return found

    def base_of(self, snapshot: Snapshot) -> Entries:
        """Return the files of a snapshot's base commit."""
        return self.bases[snapshot.repository_id, snapshot.base_commit]

    def source_of(self, snapshot: Snapshot) -> Entries:
        """Return a snapshot's `source_tree`."""
        aside = self.aside.get(snapshot.commit, frozenset())
        return select_source(self.get(snapshot), self.base_of(snapshot), aside)

    def add(
        self,
        entries: Entries,
        *,
        source: ImportedSource,
        parent: str,
        aside: frozenset[str] = frozenset(),
    ) -> Snapshot:
        """Record files as a snapshot; the names in `aside` are no part of its source."""
        content_id = make_content_id(entries)
        commit = CommitId(_digest40(f"{content_id} {parent} {sorted(aside)}"))
        base = self.bases[source.repository_id, source.commit]
        tree = select_source(entries, base, aside)
        self.entries[commit] = dict(entries)
        self.aside[commit] = aside
        return Snapshot(
            snapshot_id=SnapshotId(digest_json([content_id, source.repository_id, "memory"])),
            content_id=content_id,
            repository_id=source.repository_id,
            base_commit=source.commit,
            history=source.history,
            commit=commit,
            source_tree=_digest40(make_content_id(tree)),
            full_tree=_digest40(content_id),
        )


class MemorySandbox:
    """A sandbox whose files are in memory and whose programs are Python; see Sandbox."""

    def __init__(self, host: MemorySandboxHost, spec: SandboxSpec, *, entries: Entries) -> None:
        self._host = host
        self._spec = spec
        self._files = MemoryFiles(entries)
        self._last = spec.start
        self.sandbox_id = _digest40(f"{spec.task_id} {spec.purpose} {spec.attempt}")
        self.lost = False
        """Set it to have the container gone."""

    @property
    def spec(self) -> SandboxSpec:
        """What it was made from."""
        return self._spec

    def run(self, command: Command, *, stop: StopSignal | None = None) -> CommandResult:
        """Run a command; see Sandbox."""
        vet_command(command)
        self._strike(FaultPoint.BEFORE_RUN)
        self._host.commands.append(command)
        if stop is not None and stop.is_set():
            return make_result(ProgramOutcome(ending=Ending.STOPPED), command)
        outcome = run_program(self._make_call(command), self._host.programs)
        if outcome.seconds > command.timeout_seconds:
            outcome = ProgramOutcome(ending=Ending.TIMED_OUT, seconds=command.timeout_seconds)
        self._strike(FaultPoint.AFTER_RUN)
        return make_result(outcome, command)

    def take_snapshot(self) -> SnapshotTaken:
        """Record the files; see Sandbox."""
        return self._take(self._host.store.aside.get(self._last.commit, frozenset()))

    def take_start(self) -> SnapshotTaken:
        """Record the files as what tasks start from; see Sandbox."""
        new = self._files.freeze().keys() - self._host.store.base_of(self._last).keys()
        return self._take(frozenset(new))

    def _take(self, aside: frozenset[str]) -> SnapshotTaken:
        self._strike(FaultPoint.SNAPSHOT)
        store, before = self._host.store, self._last
        snapshot = store.add(
            self._files.freeze(), source=_source_of(before), parent=before.commit, aside=aside
        )
        changes = self._host.changes_between(before, snapshot)
        self._last = snapshot
        return SnapshotTaken(snapshot=snapshot, changes=changes)

    def restore(self, snapshot: Snapshot) -> None:
        """Put the files back; see Sandbox."""
        self._strike(FaultPoint.RESTORE)
        self._files = MemoryFiles(self._host.store.get(snapshot))
        self._last = snapshot

    def _make_call(self, command: Command) -> ProgramCall:
        added = (*self._spec.environment, *command.environment)
        return ProgramCall(
            argv=command.argv,
            cwd=command.cwd,
            environment={**_ENVIRONMENT, **dict(added)},
            stdin=command.stdin,
            files=self._files,
        )

    def _strike(self, point: FaultPoint) -> None:
        if self.lost:
            raise SandboxLostError("the container is gone")
        try:
            self._host.strike(point)
        except SandboxLostError:
            self.lost = True
            raise


class MemorySandboxHost:
    """Sandboxes in memory; see SandboxHost. Threads may share it."""

    def __init__(
        self,
        sources: Mapping[str, Mapping[str, bytes]],
        *,
        images: Sequence[str] = ("python",),
        programs: Sequence[FakeProgram] = (),
    ) -> None:
        """Make a host.

        Args:
            sources: files of each source's base commit, by its location.
            images: references that are on the engine.
            programs: answer commands before the built-in ones do.
        """
        self._sources = sources
        self._images = {name: f"sha256:{_digest64(name)}" for name in images}
        self._faults: list[Fault] = []
        self._lock = threading.Lock()
        self.programs = list(programs)
        self.store = MemoryStore()
        self.commands: list[Command] = []
        """Every command that was started, in order."""
        self.open: list[MemorySandbox] = []
        """Sandboxes that exist now, those left by a crash included."""
        self.repositories = {
            name: MemoryUserRepository(name, one) for name, one in sources.items()
        }
        """What exports write to, by the sources' locations."""
        self.rooms = [Room(used_for="home", path="/home", free_bytes=1 << 40, free_inodes=None)]
        """What is free; a test may take it away."""
        self.opened = 0
        """How many were ever made."""

    def plan(self, fault: Fault) -> None:
        """Have a fault strike once."""
        self._faults.append(fault)

    def strike(self, point: FaultPoint) -> None:
        """Raise the first planned fault of a point, once its time has come."""
        with self._lock:
            fault = next((one for one in self._faults if one.point is point), None)
            if fault is None:
                return
            if fault.skip:
                fault.skip -= 1
                return
            self._faults.remove(fault)
        raise fault.error

    def check_engine(self) -> None:
        """Answer, unless a fault strikes; see SandboxHost."""
        self.strike(FaultPoint.ENGINE)

    def list_rooms(self) -> Sequence[Room]:
        """Return what a test says is free; see SandboxHost."""
        return tuple(self.rooms)

    def resolve_image(self, reference: str) -> str:
        """Return the id of an image; see SandboxHost."""
        found = self._images.get(reference)
        if found is None and reference not in self._images.values():
            raise ImageMissingError(reference)
        return found or reference

    def import_source(self, source: Source) -> ImportedSource:
        """Take a source's files over; see SandboxHost."""
        files = self._sources.get(source.location)
        if files is None:
            raise SourceError(source.location, "there is no such repository")
        entries = {f"workspace/{name}": MemoryEntry(data) for name, data in files.items()}
        repository_id = RepositoryId(_digest64(source.location))
        commit = CommitId(_digest40(make_content_id(entries)))
        self.store.bases[repository_id, commit] = entries
        return ImportedSource(repository_id=repository_id, commit=commit, history=source.history)

    def start_snapshot(self, source: ImportedSource, *, task_id: str) -> Snapshot:
        """Return the snapshot of an untouched checkout; see SandboxHost."""
        entries = self.store.bases[source.repository_id, source.commit]
        return self.store.add(entries, source=source, parent=task_id)

    @contextmanager
    def open_sandbox(self, spec: SandboxSpec) -> Iterator[Sandbox]:
        """Make a sandbox; see SandboxHost."""
        self.resolve_image(spec.image)
        refuse_unenforced(spec)
        self.strike(FaultPoint.OPEN)
        sandbox = MemorySandbox(self, spec, entries=self._lay(spec.start, spec.lay))
        self.open.append(sandbox)
        self.opened += 1
        try:
            yield sandbox
        except SimulatedCrash:
            raise
        except BaseException:
            self._close(sandbox)
            raise
        self._close(sandbox)

    def changes_between(self, before: Snapshot, after: Snapshot) -> Changes:
        """Compare two snapshots; see SandboxHost."""
        store = self.store
        in_source = frozenset({*store.source_of(before), *store.source_of(after)})
        return diff_workspaces(store.get(before), store.get(after), in_source)

    def make_patch(self, snapshot: Snapshot) -> bytes:
        """Return the patch from the base to `source_tree`; see SandboxHost."""
        return make_memory_patch(self.store.base_of(snapshot), self.store.source_of(snapshot))

    def export_branch(
        self, snapshot: Snapshot, repository: str, *, branch: str, message: str
    ) -> CommitId:
        """Remember a branch; see SandboxHost."""
        commit = CommitId(_digest40(f"{snapshot.source_tree} {message}"))
        self._user_repository(repository).add_branch(branch, commit)
        return commit

    def apply_to_checkout(self, snapshot: Snapshot, repository: str) -> tuple[bytes, ...]:
        """Change a repository's files; see SandboxHost."""
        base, source = self.store.base_of(snapshot), self.store.source_of(snapshot)
        return self._user_repository(repository).apply(base, source)

    def read_source_file(self, snapshot: Snapshot, path: str) -> bytes | None:
        """Return the bytes of a file of `source_tree`, or None; see SandboxHost."""
        entry = self.store.source_of(snapshot).get(f"workspace/{path}")
        return None if entry is None or entry.is_link else entry.data

    def reap(self, find_live: Callable[[], Collection[tuple[str, int]]]) -> int:
        """Remove sandboxes of other than the live attempts; see SandboxHost."""
        listed = list(self.open)
        live = find_live()
        left = [one for one in listed if (one.spec.task_id, one.spec.attempt) not in live]
        for sandbox in left:
            self._close(sandbox)
        return len(left)

    def tidy(self) -> None:
        """Do nothing: memory needs no order; see SandboxHost."""

    def release(self, task_id: str) -> None:
        """Forget a task's sandboxes; see SandboxHost."""
        for sandbox in [one for one in self.open if one.spec.task_id == task_id]:
            self._close(sandbox)

    def _user_repository(self, location: str) -> MemoryUserRepository:
        found = self.repositories.get(location)
        if found is None:
            raise SourceError(location, "there is no such repository")
        return found

    def _close(self, sandbox: MemorySandbox) -> None:
        sandbox.lost = True
        with self._lock:
            if sandbox in self.open:
                self.open.remove(sandbox)

    def _lay(self, start: Snapshot, lay: LaidSource | None) -> Entries:
        entries = self.store.get(start)
        if lay is None:
            return entries
        stays = [parse_glob(pattern) for pattern in lay.restore]
        old, new = self.store.source_of(start), self.store.source_of(lay.snapshot)

        def is_laid(name: str) -> bool:
            path = name.removeprefix("workspace/")
            return not any(glob.covers(path) for glob in stays)

        kept = {name: one for name, one in entries.items() if not (name in old and is_laid(name))}
        return {**kept, **{name: one for name, one in new.items() if is_laid(name)}}


def _source_of(snapshot: Snapshot) -> ImportedSource:
    return ImportedSource(
        repository_id=snapshot.repository_id,
        commit=snapshot.base_commit,
        history=snapshot.history,
    )


def _digest40(text: str) -> str:
    return _digest64(text)[:40]


def _digest64(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
