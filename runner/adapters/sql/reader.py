"""Reads the store inside one transaction."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import Column, Connection, Select, bindparam, func, select

from policies import digest_bytes
from runner.adapters.sql.rows import (
    Row,
    row_to_batch,
    row_to_execution,
    row_to_item,
    row_to_lease,
    row_to_run,
    row_to_setup,
    row_to_snapshot,
    row_to_task,
)
from runner.adapters.sql.schema import (
    batches,
    evidence,
    executions,
    items,
    leases,
    runs,
    setups,
    snapshots,
    tasks,
)
from runner.domain.ids import BatchId, CallId, EvidenceId, RunId, SessionId, SetupKey, TaskId
from runner.domain.items import RolloutItem
from runner.domain.outcome import RunState
from runner.domain.records import Batch, Execution, KeptSetup, Lease, Run, Task
from runner.domain.rollout import verify_chain
from runner.errors import DamagedRolloutError, NotFoundError, StoreError
from sandbox import Snapshot, SnapshotId

MOST_IDS = 10
"""So many ids are enough to say that a prefix is not unique."""

_ID_COLUMNS: dict[str, Column[str]] = {
    "batch": batches.c.batch_id,
    "task": tasks.c.task_id,
    "session": tasks.c.session_id,
    "run": runs.c.run_id,
}

# built once: a statement remembers how it was compiled
_HEAD = (
    select(items.c.seq, items.c.hash)
    .where(items.c.session_id == bindparam("session"))
    .order_by(items.c.seq.desc())
    .limit(1)
)
_ITEMS = (
    # not `at`: it is there to be searched by, and a damaged one could not even be fetched
    select(*(column for column in items.c if column is not items.c.at))
    .where(items.c.session_id == bindparam("session"), items.c.seq > bindparam("after"))
    .order_by(items.c.seq)
)
_HASH = select(items.c.hash).where(
    items.c.session_id == bindparam("session"), items.c.seq == bindparam("seq")
)


class SqlReader:
    """A consistent view, as long as its transaction is open."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def get_batch(self, batch_id: BatchId) -> Batch:
        """Return a batch, or raise NotFoundError."""
        statement = select(batches).where(batches.c.batch_id == batch_id)
        return row_to_batch(self._get(statement, kind="batch", name=batch_id))

    def list_batches(self) -> Sequence[Batch]:
        """Return all batches, newest first."""
        statement = select(batches).order_by(batches.c.created_at.desc(), batches.c.ordinal.desc())
        return [row_to_batch(row) for row in self._list(statement)]

    def get_task(self, task_id: TaskId) -> Task:
        """Return a task, or raise NotFoundError."""
        statement = select(tasks).where(tasks.c.task_id == task_id)
        return row_to_task(self._get(statement, kind="task", name=task_id))

    def list_tasks(self, batch_id: BatchId | None = None) -> Sequence[Task]:
        """Return tasks of one batch (or of all), by batch's age and position."""
        statement = _in_batch_order(select(tasks).join(batches), batch_id)
        return [row_to_task(row) for row in self._list(statement)]

    def list_cancelled(self, task_ids: Collection[TaskId]) -> Collection[TaskId]:
        """Return those of the tasks that were cancelled."""
        column = tasks.c.task_id
        statement = select(column).where(column.in_(task_ids), tasks.c.cancelled_at.is_not(None))
        return set(self._connection.execute(statement).scalars())

    def find_ids(self, kind: str, prefix: str) -> Sequence[str]:
        """Return ids of a kind (batch, task, session, run) that start so, at most 10."""
        column = _ID_COLUMNS[kind]
        # not LIKE: SQLite's does not tell upper from lower case
        starts = func.substr(column, 1, len(prefix)) == prefix
        statement = select(column).where(starts).order_by(column).limit(MOST_IDS)
        try:
            return self._connection.execute(statement).scalars().all()
        except UnicodeEncodeError:  # typed by a person; no stored id is like it
            return ()

    def get_run(self, run_id: RunId) -> Run:
        """Return a run, or raise NotFoundError."""
        statement = select(runs).where(runs.c.run_id == run_id)
        return row_to_run(self._get(statement, kind="run", name=run_id))

    def list_runs(self, task_id: TaskId) -> Sequence[Run]:
        """Return a task's runs, oldest first."""
        statement = select(runs).where(runs.c.task_id == task_id).order_by(runs.c.number)
        return [row_to_run(row) for row in self._list(statement)]

    def list_last_runs(self, batch_id: BatchId | None = None) -> Sequence[Run]:
        """Return the last run of each task, in the order of list_tasks; one query."""
        others = runs.alias()
        last = (
            select(func.max(others.c.number))
            .where(others.c.task_id == runs.c.task_id)
            .scalar_subquery()
        )
        statement = (
            select(runs)
            .join(tasks, tasks.c.task_id == runs.c.task_id)
            .join(batches, batches.c.batch_id == tasks.c.batch_id)
        )
        statement = _in_batch_order(statement.where(runs.c.number == last), batch_id)
        return [row_to_run(row) for row in self._list(statement)]

    def list_runs_in(self, states: Sequence[RunState]) -> Sequence[Run]:
        """Return the runs in these states, oldest first."""
        statement = (
            select(runs)
            .where(runs.c.state.in_([state.value for state in states]))
            .order_by(runs.c.created_at, runs.c.ordinal)
        )
        return [row_to_run(row) for row in self._list(statement)]

    def find_lease(self, run_id: RunId) -> Lease | None:
        """Return the lease on a run, also a lapsed one; None if never had or given back."""
        statement = select(leases).where(leases.c.run_id == run_id, leases.c.holder.is_not(None))
        row = self._find(statement)
        return None if row is None else row_to_lease(row)

    def list_leases(self) -> Sequence[Lease]:
        """Return all leases that were not given back, lapsed ones too."""
        statement = (
            select(leases).where(leases.c.holder.is_not(None)).order_by(leases.c.expires_at)
        )
        return [row_to_lease(row) for row in self._list(statement)]

    def list_items(self, session_id: SessionId, *, after: int = 0) -> Sequence[RolloutItem]:
        """Return a rollout's items with seq > after, in order, decoded and hash-checked.

        Raises:
            DamagedRolloutError: an item is not what was written.
        """
        rows = self._connection.execute(_ITEMS, {"session": session_id, "after": after})
        found = [row_to_item(row) for row in rows.mappings()]
        if found:
            head = self._hash_of(session_id, seq=after)
            verify_chain(found, session_id=session_id, after=after, head=head)
        return found

    def count_items(self, session_id: SessionId) -> tuple[int, str]:
        """Return length and head hash of a rollout; (0, "") for one without items."""
        row = self._connection.execute(_HEAD, {"session": session_id}).one_or_none()
        return (0, "") if row is None else (row.seq, row.hash)

    def find_execution(
        self, session_id: SessionId, run_id: RunId, call_id: CallId
    ) -> Execution | None:
        """Return the ledger row of a call, or None."""
        row = self._find(
            select(executions).where(
                executions.c.session_id == session_id,
                executions.c.run_id == run_id,
                executions.c.call_id == call_id,
            )
        )
        return None if row is None else row_to_execution(row)

    def list_executions(self, session_id: SessionId) -> Sequence[Execution]:
        """Return the ledger of a session, oldest first."""
        statement = (
            select(executions)
            .where(executions.c.session_id == session_id)
            .order_by(executions.c.ordinal)
        )
        return [row_to_execution(row) for row in self._list(statement)]

    def get_snapshot(self, snapshot_id: SnapshotId) -> Snapshot:
        """Return a snapshot, or raise NotFoundError."""
        statement = select(snapshots).where(snapshots.c.snapshot_id == snapshot_id)
        return row_to_snapshot(self._get(statement, kind="snapshot", name=snapshot_id))

    def find_setup(self, setup_key: SetupKey) -> KeptSetup | None:
        """Return what the setup of a key left, or None."""
        row = self._find(select(setups).where(setups.c.setup_key == setup_key))
        return None if row is None else row_to_setup(row)

    def get_evidence(self, evidence_id: EvidenceId) -> bytes:
        """Return the bytes kept under an id, or raise NotFoundError.

        Raises:
            StoreError: they are not the bytes that were kept.
        """
        statement = select(evidence).where(evidence.c.evidence_id == evidence_id)
        data: bytes = self._get(statement, kind="evidence", name=evidence_id)["data"]
        if digest_bytes(data) != evidence_id:
            raise StoreError(f"evidence {evidence_id!r} is not what was kept")
        return data

    def _hash_of(self, session_id: SessionId, *, seq: int) -> str:
        if seq == 0:
            return ""
        found = self._connection.execute(_HASH, {"session": session_id, "seq": seq})
        head: str | None = found.scalar_one_or_none()
        if head is None:
            raise DamagedRolloutError(session_id, seq, "it is missing")
        return head

    def _find(self, statement: Select[Any]) -> Row | None:
        try:
            return self._connection.execute(statement).mappings().one_or_none()
        except UnicodeEncodeError:  # asked for by a name that no row can have
            return None

    def _get(self, statement: Select[Any], *, kind: str, name: str) -> Row:
        row = self._find(statement)
        if row is None:
            raise NotFoundError(kind, name)
        return row

    def _list(self, statement: Select[Any]) -> Sequence[Row]:
        return self._connection.execute(statement).mappings().all()


def _in_batch_order(statement: Select[Any], batch_id: BatchId | None) -> Select[Any]:
    if batch_id is not None:
        statement = statement.where(tasks.c.batch_id == batch_id)
    return statement.order_by(
        batches.c.created_at, batches.c.ordinal, tasks.c.position, tasks.c.ordinal
    )
