"""Port: the one store of batches, tasks, runs, executions, rollouts, snapshots and evidence.

Everything that must be atomic happens in one `write()`. With a lease, the whole transaction is
refused as soon as the lease's token is not the run's current one, so a stalled worker that wakes
up changes nothing. No transaction is held while a command runs or a model answers.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Protocol

from runner.domain.ids import BatchId, CallId, EvidenceId, RunId, SessionId, SetupKey, TaskId
from runner.domain.items import NewItem, RolloutItem
from runner.domain.outcome import RunState
from runner.domain.records import Batch, Execution, ExecutionState, KeptSetup, Lease, Run, Task
from sandbox import Snapshot, SnapshotId


class StoreReader(Protocol):
    """A consistent view. `get_` raises NotFoundError, `find_` may return None."""

    def get_batch(self, batch_id: BatchId) -> Batch: ...

    def list_batches(self) -> Sequence[Batch]:
        """Return all batches, newest first."""
        ...

    def get_task(self, task_id: TaskId) -> Task: ...

    def list_tasks(self, batch_id: BatchId | None = None) -> Sequence[Task]:
        """Return tasks of one batch (or of all), by batch's age and position."""
        ...

    def list_cancelled(self, task_ids: Collection[TaskId]) -> Collection[TaskId]:
        """Return those of the tasks that were cancelled; one query."""
        ...

    def find_ids(self, kind: str, prefix: str) -> Sequence[str]:
        """Return ids of a kind (batch, task, session, run) with a prefix, at most 10."""
        ...

    def get_run(self, run_id: RunId) -> Run: ...

    def list_runs(self, task_id: TaskId) -> Sequence[Run]:
        """Return a task's runs, oldest first."""
        ...

    def list_last_runs(self, batch_id: BatchId | None = None) -> Sequence[Run]:
        """Return the last run of each task, in the order of list_tasks; one query."""
        ...

    def list_runs_in(self, states: Sequence[RunState]) -> Sequence[Run]:
        """Return the runs in these states, oldest first."""
        ...

    def find_lease(self, run_id: RunId) -> Lease | None:
        """Return the lease on a run, also a lapsed one; None = never had, or given back."""
        ...

    def list_leases(self) -> Sequence[Lease]:
        """Return all leases that were not given back, lapsed ones too."""
        ...

    def list_items(self, session_id: SessionId, *, after: int = 0) -> Sequence[RolloutItem]:
        """Return a rollout's items with seq > after, in order, decoded and hash-checked.

        Raises:
            DamagedRolloutError: an item is not what was written.
        """
        ...

    def count_items(self, session_id: SessionId) -> tuple[int, str]:
        """Return length and head hash of a rollout; (0, "") for one without items."""
        ...

    def find_execution(
        self, session_id: SessionId, run_id: RunId, call_id: CallId
    ) -> Execution | None: ...

    def list_executions(self, session_id: SessionId) -> Sequence[Execution]:
        """Return the ledger of a session, oldest first."""
        ...

    def get_snapshot(self, snapshot_id: SnapshotId) -> Snapshot: ...

    def find_setup(self, setup_key: SetupKey) -> KeptSetup | None:
        """Return what the setup of a key left; None = nobody has run it to its end."""
        ...

    def get_evidence(self, evidence_id: EvidenceId) -> bytes: ...


class StoreWriter(StoreReader, Protocol):
    """One transaction: all of it or nothing."""

    def add_batch(self, batch: Batch) -> None: ...

    def add_task(self, task: Task) -> None: ...

    def add_run(self, run: Run) -> None:
        """Store a new run.

        Raises:
            ConflictError: the session has a run that is not terminal.
        """
        ...

    def save_run(self, run: Run, *, expected: RunState) -> None:
        """Write a run's row back.

        Raises:
            StaleVersionError: its state in the store is not the expected one.
        """
        ...

    def cancel_batch(self, batch_id: BatchId, at: datetime) -> None:
        """Mark a batch and all its tasks that have not ended; keeps the first instant."""
        ...

    def cancel_task(self, task_id: TaskId, at: datetime) -> None:
        """Mark a task; keeps the first instant."""
        ...

    def append_items(
        self, session_id: SessionId, items: Sequence[NewItem], *, at: datetime
    ) -> Sequence[RolloutItem]:
        """Append to a rollout and return the items in their places."""
        ...

    def put_evidence(self, data: bytes) -> EvidenceId:
        """Keep immutable bytes; the same bytes give the same id."""
        ...

    def add_execution(self, execution: Execution) -> None:
        """Store a new ledger row.

        Raises:
            ConflictError: the key (session, run, call) exists.
        """
        ...

    def save_execution(self, execution: Execution, *, expected: ExecutionState) -> None:
        """Write a ledger row back.

        Raises:
            StaleVersionError: its state in the store is not the expected one.
            ConflictError: the arguments' digest differs from the stored one.
        """
        ...

    def add_snapshot(self, snapshot: Snapshot) -> None:
        """Store where a snapshot's parts are; the same snapshot again is no error."""
        ...

    def add_setup(self, setup: KeptSetup) -> KeptSetup:
        """Keep what a setup left and return what is kept under its key: the first one.

        Raises:
            NotFoundError: its snapshot or its log is not stored.
        """
        ...


class Store(Protocol):
    """Opens transactions. Thread-safe; used by several processes at once."""

    def read(self) -> AbstractContextManager[StoreReader]:
        """Open a consistent view."""
        ...

    def write(self, lease: Lease | None = None) -> AbstractContextManager[StoreWriter]:
        """Open a transaction; it commits when the block ends without an exception.

        Raises (also at the end of the block):
            StaleLeaseError: the lease's token is not the run's current one, or it has lapsed and
                was claimed by another. Nothing of the block is kept.
        """
        ...

    def claim_run(
        self, run_id: RunId, *, holder: str, now: datetime, seconds: float
    ) -> Lease | None:
        """Take the lease of a run that is not terminal and has no live lease; count an attempt.

        Returns:
            The lease with a token higher than any before, or None when it cannot be had.
        """
        ...

    def renew_lease(self, lease: Lease, *, now: datetime, seconds: float) -> Lease:
        """Push the end of a lease.

        Raises:
            StaleLeaseError: someone else has it.
        """
        ...

    def release_lease(self, lease: Lease) -> None:
        """Give a lease back; a stale one is ignored."""
        ...

    def break_lease(self, lease: Lease) -> bool:
        """End another holder's lease whose process is known to be gone; False if it moved on."""
        ...
