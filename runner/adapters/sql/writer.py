"""Writes to the store inside one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Insert, Table, bindparam, exists, insert, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import IntegrityError

from policies import digest_bytes
from runner.adapters.sql.failures import translate_insert
from runner.adapters.sql.reader import SqlReader
from runner.adapters.sql.rows import (
    Row,
    batch_to_row,
    execution_to_row,
    item_to_row,
    row_to_setup,
    run_to_row,
    setup_to_row,
    snapshot_to_row,
    task_to_row,
)
from runner.adapters.sql.schema import (
    LIVE_STATES,
    batches,
    evidence,
    executions,
    items,
    runs,
    setups,
    snapshots,
    tasks,
)
from runner.domain.clean_run import clean_run
from runner.domain.ids import BatchId, EvidenceId, SessionId, TaskId
from runner.domain.items import NewItem, RolloutItem, chain_item
from runner.domain.outcome import RunState
from runner.domain.records import Batch, Execution, ExecutionState, KeptSetup, Run, Task
from runner.domain.transitions import require_execution_step, require_run_step
from runner.errors import ConflictError, NotFoundError, StaleVersionError, StoreError
from sandbox import Snapshot

# what a run is, and the attempts, which claim_run alone counts
_KEPT_OF_A_RUN = ("run_id", "task_id", "batch_id", "session_id", "number", "created_at", "attempt")
_KEPT_OF_AN_EXECUTION = ("session_id", "run_id", "call_id", "arguments_digest")

# built once: a statement remembers how it was compiled
_ADD_ITEM = insert(items)
_LOCK_SESSION = (
    select(tasks.c.session_id).where(tasks.c.session_id == bindparam("session")).with_for_update()
)
_SAVE_RUN = update(runs).where(
    runs.c.run_id == bindparam("saved_run"), runs.c.state == bindparam("expected_state")
)
_SAVE_EXECUTION = update(executions).where(
    *(executions.c[name] == bindparam(f"saved_{name}") for name in _KEPT_OF_AN_EXECUTION),
    executions.c.state == bindparam("expected_state"),
)


class SqlWriter(SqlReader):
    """One write transaction."""

    def add_batch(self, batch: Batch) -> None:
        """Store a new batch.

        Raises:
            ConflictError: its id exists.
        """
        self._insert(
            batches, batch_to_row(batch), taken=f"batch {batch.batch_id} exists", parent=("", "")
        )

    def add_task(self, task: Task) -> None:
        """Store a new task.

        Raises:
            ConflictError: its id or its session exists.
            NotFoundError: its batch does not exist.
        """
        self._insert(
            tasks,
            task_to_row(task),
            taken=f"task {task.task_id} or session {task.session_id} exists",
            parent=("batch", task.batch_id),
        )

    def add_run(self, run: Run) -> None:
        """Store a new run.

        Raises:
            ConflictError: the session has a run that is not terminal, or the run exists.
            NotFoundError: its task does not exist.
        """
        self._insert(
            runs,
            run_to_row(clean_run(run)),
            taken=f"session {run.session_id} has a run that has not ended, or run "
            f"{run.run_id} (number {run.number}) exists",
            parent=("task", run.task_id),
        )

    def save_run(self, run: Run, *, expected: RunState) -> None:
        """Write a run's row back; attempts are counted by claim_run alone.

        Raises:
            NotFoundError: the run does not exist.
            StaleVersionError: its state in the store is not the expected one.
            ConflictError: a run may not go from the one state to the other.
        """
        require_run_step(run.run_id, expected, run.state)
        row = run_to_row(clean_run(run))
        done = self._connection.execute(
            _SAVE_RUN,
            _without(row, _KEPT_OF_A_RUN)
            | {"saved_run": run.run_id, "expected_state": expected.value},
        )
        if done.rowcount == 0:
            found = self.get_run(run.run_id).state
            raise StaleVersionError("run", run.run_id, expected.value, found.value)

    def cancel_batch(self, batch_id: BatchId, at: datetime) -> None:
        """Mark a batch and all its tasks that have not ended; keeps the first instant."""
        self.get_batch(batch_id)
        any_run = exists().where(runs.c.task_id == tasks.c.task_id)
        live_run = any_run.where(runs.c.state.in_(LIVE_STATES))
        self._mark(batches, batches.c.batch_id == batch_id, at=at)
        self._mark(tasks, (tasks.c.batch_id == batch_id) & (~any_run | live_run), at=at)

    def cancel_task(self, task_id: TaskId, at: datetime) -> None:
        """Mark a task; keeps the first instant."""
        self.get_task(task_id)
        self._mark(tasks, tasks.c.task_id == task_id, at=at)

    def append_items(
        self, session_id: SessionId, items: Sequence[NewItem], *, at: datetime
    ) -> Sequence[RolloutItem]:
        """Append to a rollout and return the items in their places.

        Raises:
            NotFoundError: no task has this session.
            ConflictError: a message id exists.
        """
        # waits for whoever appends to the same session, where the database lets two write
        if self._connection.execute(_LOCK_SESSION, {"session": session_id}).first() is None:
            raise NotFoundError("session", session_id)
        if not items:
            return ()
        count, head = self.count_items(session_id)
        chained: list[RolloutItem] = []
        for seq, new in enumerate(items, start=count + 1):
            chained.append(chain_item(new, seq=seq, at=at, prev=head))
            head = chained[-1].hash
        try:
            self._connection.execute(_ADD_ITEM, [item_to_row(one, session_id) for one in chained])
        except IntegrityError as error:
            raise ConflictError(f"session {session_id}: a message id exists already") from error
        return chained

    def put_evidence(self, data: bytes) -> EvidenceId:
        """Keep immutable bytes; the same bytes give the same id."""
        evidence_id = EvidenceId(digest_bytes(data))
        self._insert_once(evidence, {"evidence_id": evidence_id, "data": data})
        return evidence_id

    def add_execution(self, execution: Execution) -> None:
        """Store a new ledger row.

        Raises:
            ConflictError: the key (session, run, call) exists.
            NotFoundError: its run does not exist.
        """
        self._insert(
            executions,
            execution_to_row(execution),
            taken=f"execution {execution.call_id} of run {execution.run_id} exists",
            parent=("run", execution.run_id),
        )

    def save_execution(self, execution: Execution, *, expected: ExecutionState) -> None:
        """Write a ledger row back.

        Raises:
            NotFoundError: the row does not exist.
            StaleVersionError: its state in the store is not the expected one.
            ConflictError: the arguments' digest differs from the stored one, or an execution may
                not go from the one state to the other.
        """
        require_execution_step(execution.call_id, expected, execution.state)
        row = execution_to_row(execution)
        done = self._connection.execute(
            _SAVE_EXECUTION,
            _without(row, _KEPT_OF_AN_EXECUTION)
            | {f"saved_{name}": row[name] for name in _KEPT_OF_AN_EXECUTION}
            | {"expected_state": expected.value},
        )
        if done.rowcount == 0:
            raise self._why_unsaved(execution, expected)

    def add_snapshot(self, snapshot: Snapshot) -> None:
        """Store where a snapshot's parts are; the same snapshot again is no error."""
        self._insert_once(snapshots, snapshot_to_row(snapshot))

    def add_setup(self, setup: KeptSetup) -> KeptSetup:
        """Keep what a setup left and return the first one of its key.

        Raises:
            NotFoundError: its snapshot or its log is not stored.
        """
        self.get_snapshot(setup.snapshot_id)
        self.get_evidence(setup.log)
        self._insert_once(setups, setup_to_row(setup))
        statement = select(setups).where(setups.c.setup_key == setup.setup_key)
        return row_to_setup(self._get(statement, kind="setup", name=setup.setup_key))

    def _why_unsaved(self, execution: Execution, expected: ExecutionState) -> Exception:
        found = self.find_execution(execution.session_id, execution.run_id, execution.call_id)
        if found is None:
            return NotFoundError("execution", execution.call_id)
        if found.arguments_digest != execution.arguments_digest:
            return ConflictError(f"execution {execution.call_id} was asked with other arguments")
        return StaleVersionError("execution", execution.call_id, expected.value, found.state.value)

    def _mark(self, table: Table, which: ColumnElement[bool], *, at: datetime) -> None:
        unmarked = table.c.cancelled_at.is_(None)
        self._connection.execute(update(table).where(which, unmarked).values(cancelled_at=at))

    def _insert(self, table: Table, row: Row, *, taken: str, parent: tuple[str, str]) -> None:
        """Insert a row; `parent` is kind and id of what it belongs to."""
        try:
            self._connection.execute(insert(table), row)
        except IntegrityError as error:
            raise translate_insert(
                error, taken=ConflictError(taken), missing=NotFoundError(*parent)
            ) from error
        except UnicodeEncodeError as error:
            raise StoreError(f"a text that no store carries: {error}") from error

    def _insert_once(self, table: Table, row: Row) -> None:
        self._connection.execute(_insert_unless_there(table, self._connection.dialect.name), row)


def _insert_unless_there(table: Table, dialect: str) -> Insert:
    if dialect == "postgresql":
        return postgresql.insert(table).on_conflict_do_nothing()
    return sqlite.insert(table).on_conflict_do_nothing()


def _without(row: Row, names: Sequence[str]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in names}
