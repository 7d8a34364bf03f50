"""What the store's double keeps, and how it is read and written inside one transaction."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from operator import attrgetter
from typing import TypeAlias, TypeVar

from policies import digest_bytes
from runner.domain.clean_run import clean_run
from runner.domain.ids import (
    BatchId,
    CallId,
    EvidenceId,
    MessageId,
    RunId,
    SessionId,
    SetupKey,
    TaskId,
)
from runner.domain.items import NewItem, RolloutItem, chain_item, parse_line
from runner.domain.outcome import RunState
from runner.domain.records import Batch, Execution, ExecutionState, KeptSetup, Lease, Run, Task
from runner.domain.rollout import verify_chain
from runner.domain.transitions import require_execution_step, require_run_step
from runner.errors import ConflictError, NotFoundError, StaleVersionError
from sandbox import Snapshot, SnapshotId

ExecutionKey: TypeAlias = tuple[SessionId, RunId, CallId]

K = TypeVar("K")
V = TypeVar("V")

MOST_IDS = 10
"""So many ids are enough to say that a prefix is not unique."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryTables:
    """Everything, by id, in the order it came. Values are never changed, only replaced."""

    batches: dict[BatchId, Batch] = field(default_factory=dict)
    tasks: dict[TaskId, Task] = field(default_factory=dict)
    runs: dict[RunId, Run] = field(default_factory=dict)
    leases: dict[RunId, Lease] = field(default_factory=dict)
    tokens: dict[RunId, int] = field(default_factory=dict)
    """The highest token so far; stays when a lease is given back."""
    executions: dict[ExecutionKey, Execution] = field(default_factory=dict)
    rollouts: dict[SessionId, tuple[bytes, ...]] = field(default_factory=dict)
    """Lines of each session that exists."""
    message_ids: dict[MessageId, SessionId] = field(default_factory=dict)
    snapshots: dict[SnapshotId, Snapshot] = field(default_factory=dict)
    setups: dict[SetupKey, KeptSetup] = field(default_factory=dict)
    evidence: dict[EvidenceId, bytes] = field(default_factory=dict)

    def copy(self) -> MemoryTables:
        """Return tables that can be written without changing these."""
        return MemoryTables(**{one.name: dict(getattr(self, one.name)) for one in fields(self)})


class MemoryReader:
    """A consistent view."""

    def __init__(self, tables: MemoryTables) -> None:
        self._tables = tables

    def get_batch(self, batch_id: BatchId) -> Batch:
        """Return a batch, or raise NotFoundError."""
        return _get(self._tables.batches, batch_id, kind="batch")

    def list_batches(self) -> Sequence[Batch]:
        """Return all batches, newest first."""
        return sorted(self._tables.batches.values(), key=attrgetter("created_at"))[::-1]

    def get_task(self, task_id: TaskId) -> Task:
        """Return a task, or raise NotFoundError."""
        return _get(self._tables.tasks, task_id, kind="task")

    def list_tasks(self, batch_id: BatchId | None = None) -> Sequence[Task]:
        """Return tasks of one batch (or of all), by batch's age and position."""
        return [
            task
            for batch in self.list_batches()[::-1]
            if batch_id in {None, batch.batch_id}
            for task in sorted(self._tables.tasks.values(), key=attrgetter("position"))
            if task.batch_id == batch.batch_id
        ]

    def list_cancelled(self, task_ids: Collection[TaskId]) -> Collection[TaskId]:
        """Return those of the tasks that were cancelled."""
        found = (self._tables.tasks.get(task_id) for task_id in task_ids)
        return {one.task_id for one in found if one is not None and one.cancelled_at is not None}

    def find_ids(self, kind: str, prefix: str) -> Sequence[str]:
        """Return ids of a kind (batch, task, session, run) that start so, at most 10."""
        ids: dict[str, Iterable[str]] = {
            "batch": self._tables.batches,
            "task": self._tables.tasks,
            "session": self._tables.rollouts,
            "run": self._tables.runs,
        }
        return sorted(one for one in ids[kind] if one.startswith(prefix))[:MOST_IDS]

    def get_run(self, run_id: RunId) -> Run:
        """Return a run, or raise NotFoundError."""
        return _get(self._tables.runs, run_id, kind="run")

    def list_runs(self, task_id: TaskId) -> Sequence[Run]:
        """Return a task's runs, oldest first."""
        return sorted(
            self._runs_where(lambda run: run.task_id == task_id), key=attrgetter("number")
        )

    def list_last_runs(self, batch_id: BatchId | None = None) -> Sequence[Run]:
        """Return the last run of each task, in the order of list_tasks."""
        runs = [self.list_runs(task.task_id) for task in self.list_tasks(batch_id)]
        return [of_task[-1] for of_task in runs if of_task]

    def list_runs_in(self, states: Sequence[RunState]) -> Sequence[Run]:
        """Return the runs in these states, oldest first."""
        return sorted(
            self._runs_where(lambda run: run.state in states), key=attrgetter("created_at")
        )

    def find_lease(self, run_id: RunId) -> Lease | None:
        """Return the lease on a run, also a lapsed one; None if never had or given back."""
        return self._tables.leases.get(run_id)

    def list_leases(self) -> Sequence[Lease]:
        """Return all leases that were not given back, lapsed ones too."""
        return sorted(self._tables.leases.values(), key=attrgetter("expires_at"))

    def list_items(self, session_id: SessionId, *, after: int = 0) -> Sequence[RolloutItem]:
        """Return a rollout's items with seq > after, in order, decoded and hash-checked.

        Raises:
            DamagedRolloutError: an item is not what was written.
        """
        lines = self._tables.rollouts.get(session_id, ())
        items = [
            parse_line(line, session_id=session_id, seq=seq)
            for seq, line in enumerate(lines, start=1)
        ]
        verify_chain(items, session_id=session_id)
        return items[after:]

    def count_items(self, session_id: SessionId) -> tuple[int, str]:
        """Return length and head hash of a rollout; (0, "") for one without items."""
        lines = self._tables.rollouts.get(session_id, ())
        if not lines:
            return 0, ""
        return len(lines), parse_line(lines[-1], session_id=session_id, seq=len(lines)).hash

    def find_execution(
        self, session_id: SessionId, run_id: RunId, call_id: CallId
    ) -> Execution | None:
        """Return the ledger row of a call, or None."""
        return self._tables.executions.get((session_id, run_id, call_id))

    def list_executions(self, session_id: SessionId) -> Sequence[Execution]:
        """Return the ledger of a session, oldest first."""
        return [one for one in self._tables.executions.values() if one.session_id == session_id]

    def get_snapshot(self, snapshot_id: SnapshotId) -> Snapshot:
        """Return a snapshot, or raise NotFoundError."""
        return _get(self._tables.snapshots, snapshot_id, kind="snapshot")

    def find_setup(self, setup_key: SetupKey) -> KeptSetup | None:
        """Return what the setup of a key left, or None."""
        return self._tables.setups.get(setup_key)

    def get_evidence(self, evidence_id: EvidenceId) -> bytes:
        """Return the bytes kept under an id, or raise NotFoundError."""
        return _get(self._tables.evidence, evidence_id, kind="evidence")

    def _runs_where(self, wanted: Callable[[Run], bool]) -> list[Run]:
        return [run for run in self._tables.runs.values() if wanted(run)]


class MemoryWriter(MemoryReader):
    """One write transaction. Each call checks everything before it changes anything."""

    def add_batch(self, batch: Batch) -> None:
        """Store a new batch.

        Raises:
            ConflictError: its id exists.
        """
        if batch.batch_id in self._tables.batches:
            raise ConflictError(f"batch {batch.batch_id} exists")
        self._tables.batches[batch.batch_id] = batch

    def add_task(self, task: Task) -> None:
        """Store a new task.

        Raises:
            ConflictError: its id or its session exists.
            NotFoundError: its batch does not exist.
        """
        if task.task_id in self._tables.tasks or task.session_id in self._tables.rollouts:
            raise ConflictError(f"task {task.task_id} or session {task.session_id} exists")
        self.get_batch(task.batch_id)
        self._tables.tasks[task.task_id] = task
        self._tables.rollouts[task.session_id] = ()

    def add_run(self, run: Run) -> None:
        """Store a new run.

        Raises:
            ConflictError: the session has a run that is not terminal, or the run exists.
            NotFoundError: its task does not exist.
        """
        others = self._runs_where(lambda other: other.session_id == run.session_id)
        same = any(other.number == run.number or other.run_id == run.run_id for other in others)
        if same or any(not other.state.terminal for other in others):
            raise ConflictError(
                f"session {run.session_id} has a run that has not ended, or run "
                f"{run.run_id} (number {run.number}) exists"
            )
        self.get_task(run.task_id)
        self._tables.runs[run.run_id] = clean_run(run)

    def save_run(self, run: Run, *, expected: RunState) -> None:
        """Write a run's row back; attempts are counted by claim_run alone.

        Raises:
            NotFoundError: the run does not exist.
            StaleVersionError: its state in the store is not the expected one.
            ConflictError: a run may not go from the one state to the other.
        """
        require_run_step(run.run_id, expected, run.state)
        stored = self.get_run(run.run_id)
        if stored.state is not expected:
            raise StaleVersionError("run", run.run_id, expected.value, stored.state.value)
        self._tables.runs[run.run_id] = replace(
            clean_run(run),
            task_id=stored.task_id,
            batch_id=stored.batch_id,
            session_id=stored.session_id,
            number=stored.number,
            created_at=stored.created_at,
            attempt=stored.attempt,
        )

    def cancel_batch(self, batch_id: BatchId, at: datetime) -> None:
        """Mark a batch and all its tasks that have not ended; keeps the first instant."""
        batch = self.get_batch(batch_id)
        if batch.cancelled_at is None:
            self._tables.batches[batch_id] = replace(batch, cancelled_at=at)
        for task in self.list_tasks(batch_id):
            runs = self.list_runs(task.task_id)
            if not runs or not runs[-1].state.terminal:
                self.cancel_task(task.task_id, at)

    def cancel_task(self, task_id: TaskId, at: datetime) -> None:
        """Mark a task; keeps the first instant."""
        task = self.get_task(task_id)
        if task.cancelled_at is None:
            self._tables.tasks[task_id] = replace(task, cancelled_at=at)

    def append_items(
        self, session_id: SessionId, items: Sequence[NewItem], *, at: datetime
    ) -> Sequence[RolloutItem]:
        """Append to a rollout and return the items in their places.

        Raises:
            NotFoundError: no task has this session.
            ConflictError: a message id exists.
        """
        lines = _get(self._tables.rollouts, session_id, kind="session")
        count, head = self.count_items(session_id)
        chained: list[RolloutItem] = []
        for seq, new in enumerate(items, start=count + 1):
            chained.append(chain_item(new, seq=seq, at=at, prev=head))
            head = chained[-1].hash
        named = [item.message_id for item in items if item.message_id is not None]
        if len(set(named)) < len(named) or any(one in self._tables.message_ids for one in named):
            raise ConflictError(f"session {session_id}: a message id exists already")
        self._tables.message_ids.update(dict.fromkeys(named, session_id))
        self._tables.rollouts[session_id] = (*lines, *(item.to_line() for item in chained))
        return chained

    def put_evidence(self, data: bytes) -> EvidenceId:
        """Keep immutable bytes; the same bytes give the same id."""
        evidence_id = EvidenceId(digest_bytes(data))
        self._tables.evidence[evidence_id] = data
        return evidence_id

    def add_execution(self, execution: Execution) -> None:
        """Store a new ledger row.

        Raises:
            ConflictError: the key (session, run, call) exists.
            NotFoundError: its run does not exist.
        """
        key = _key_of(execution)
        if key in self._tables.executions:
            raise ConflictError(f"execution {execution.call_id} of run {execution.run_id} exists")
        self.get_run(execution.run_id)
        self._tables.executions[key] = execution

    def save_execution(self, execution: Execution, *, expected: ExecutionState) -> None:
        """Write a ledger row back.

        Raises:
            NotFoundError: the row does not exist.
            StaleVersionError: its state in the store is not the expected one.
            ConflictError: the arguments' digest differs from the stored one, or an execution may
                not go from the one state to the other.
        """
        require_execution_step(execution.call_id, expected, execution.state)
        stored = self._tables.executions.get(_key_of(execution))
        if stored is None:
            raise NotFoundError("execution", execution.call_id)
        if stored.arguments_digest != execution.arguments_digest:
            raise ConflictError(f"execution {execution.call_id} was asked with other arguments")
        if stored.state is not expected:
            raise StaleVersionError(
                "execution", execution.call_id, expected.value, stored.state.value
            )
        self._tables.executions[_key_of(execution)] = execution

    def add_snapshot(self, snapshot: Snapshot) -> None:
        """Store where a snapshot's parts are; the same snapshot again is no error."""
        self._tables.snapshots.setdefault(snapshot.snapshot_id, snapshot)

    def add_setup(self, setup: KeptSetup) -> KeptSetup:
        """Keep what a setup left and return the first one of its key.

        Raises:
            NotFoundError: its snapshot or its log is not stored.
        """
        self.get_snapshot(setup.snapshot_id)
        self.get_evidence(setup.log)
        return self._tables.setups.setdefault(setup.setup_key, setup)


def _key_of(execution: Execution) -> ExecutionKey:
    return execution.session_id, execution.run_id, execution.call_id


def _get(table: dict[K, V], key: K, *, kind: str) -> V:
    if key not in table:
        raise NotFoundError(kind, str(key))
    return table[key]
