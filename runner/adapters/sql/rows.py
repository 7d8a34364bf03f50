"""Between records and rows: one pair of functions for each record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, TypeAlias

from pydantic import TypeAdapter

from runner.domain.budget import Usage
from runner.domain.items import RolloutItem, parse_line
from runner.domain.outcome import Outcome, RunState
from runner.domain.records import (
    Batch,
    Execution,
    ExecutionState,
    KeptSetup,
    Lease,
    Run,
    SetupResult,
    Task,
    VerifyResult,
)
from runner.domain.task import BatchSpec, TaskSpec
from runner.errors import DamagedRolloutError
from sandbox import Coverage, History, Snapshot

Row: TypeAlias = Mapping[Any, Any]
"""Values by column name; SQLAlchemy's own mappings also take columns as keys."""

_USAGE = TypeAdapter(Usage)
_VERIFY = TypeAdapter(VerifyResult)
_SETUP = TypeAdapter(SetupResult)
_COVERAGE = TypeAdapter(Coverage)


def batch_to_row(batch: Batch) -> Row:
    """Return the row of a batch."""
    return {
        "batch_id": batch.batch_id,
        "spec": batch.spec.model_dump_json(),
        "results_dir": batch.results_dir,
        "created_at": batch.created_at,
        "cancelled_at": batch.cancelled_at,
    }


def row_to_batch(row: Row) -> Batch:
    """Return the batch of a row."""
    return Batch(
        batch_id=row["batch_id"],
        spec=BatchSpec.model_validate_json(row["spec"]),
        results_dir=row["results_dir"],
        created_at=row["created_at"],
        cancelled_at=row["cancelled_at"],
    )


def task_to_row(task: Task) -> Row:
    """Return the row of a task."""
    return _plain(task) | {"spec": task.spec.model_dump_json()}


def row_to_task(row: Row) -> Task:
    """Return the task of a row."""
    return Task(
        task_id=row["task_id"],
        batch_id=row["batch_id"],
        session_id=row["session_id"],
        position=row["position"],
        spec=TaskSpec.model_validate_json(row["spec"]),
        created_at=row["created_at"],
        cancelled_at=row["cancelled_at"],
        parent_task_id=row["parent_task_id"],
        fork_message_id=row["fork_message_id"],
    )


def run_to_row(run: Run) -> Row:
    """Return the row of a run."""
    return _plain(run) | {
        "state": run.state.value,
        "outcome": None if run.outcome is None else run.outcome.value,
        "usage": _USAGE.dump_json(run.usage).decode(),
        "verify_before": _verify_to_text(run.verify_before),
        "verify_after": _verify_to_text(run.verify_after),
        "setup": None if run.setup is None else _SETUP.dump_json(run.setup).decode(),
    }


def row_to_run(row: Row) -> Run:
    """Return the run of a row."""
    return Run(
        run_id=row["run_id"],
        task_id=row["task_id"],
        batch_id=row["batch_id"],
        session_id=row["session_id"],
        number=row["number"],
        state=RunState(row["state"]),
        reason=row["reason"],
        outcome=None if row["outcome"] is None else Outcome(row["outcome"]),
        attempt=row["attempt"],
        created_at=row["created_at"],
        started_at=row["started_at"],
        ended_at=row["ended_at"],
        usage=_USAGE.validate_json(row["usage"]),
        verify_before=_text_to_verify(row["verify_before"]),
        verify_after=_text_to_verify(row["verify_after"]),
        verify_milliseconds=row["verify_milliseconds"],
        items=row["items"],
        head=row["head"],
        setup=None if row["setup"] is None else _SETUP.validate_json(row["setup"]),
    )


def lease_to_row(lease: Lease) -> Row:
    """Return the row of a lease."""
    return _plain(lease)


def row_to_lease(row: Row) -> Lease:
    """Return the lease of a row that has a holder."""
    return Lease(
        run_id=row["run_id"],
        token=row["token"],
        holder=row["holder"],
        expires_at=row["expires_at"],
    )


def execution_to_row(execution: Execution) -> Row:
    """Return the row of an execution."""
    return _plain(execution) | {"state": execution.state.value}


def row_to_execution(row: Row) -> Execution:
    """Return the execution of a row."""
    return Execution(
        session_id=row["session_id"],
        run_id=row["run_id"],
        call_id=row["call_id"],
        tool=row["tool"],
        arguments_digest=row["arguments_digest"],
        action_digest=row["action_digest"],
        state=ExecutionState(row["state"]),
        attempt=row["attempt"],
        base_snapshot_id=row["base_snapshot_id"],
        result_snapshot_id=row["result_snapshot_id"],
    )


def snapshot_to_row(snapshot: Snapshot) -> Row:
    """Return the row of a snapshot."""
    return {
        "snapshot_id": snapshot.snapshot_id,
        "content_id": snapshot.content_id,
        "repository_id": snapshot.repository_id,
        "base_commit": snapshot.base_commit,
        "history": snapshot.history.value,
        "commit_id": snapshot.commit,
        "source_tree": snapshot.source_tree,
        "full_tree": snapshot.full_tree,
        "coverage": _COVERAGE.dump_json(snapshot.coverage).decode(),
    }


def row_to_snapshot(row: Row) -> Snapshot:
    """Return the snapshot of a row."""
    return Snapshot(
        snapshot_id=row["snapshot_id"],
        content_id=row["content_id"],
        repository_id=row["repository_id"],
        base_commit=row["base_commit"],
        history=History(row["history"]),
        commit=row["commit_id"],
        source_tree=row["source_tree"],
        full_tree=row["full_tree"],
        coverage=_COVERAGE.validate_json(row["coverage"]),
    )


def setup_to_row(setup: KeptSetup) -> Row:
    """Return the row of what a setup left."""
    return _plain(setup)


def row_to_setup(row: Row) -> KeptSetup:
    """Return what a setup left of a row."""
    return KeptSetup(
        setup_key=row["setup_key"],
        snapshot_id=row["snapshot_id"],
        log=row["log"],
        created_at=row["created_at"],
    )


def item_to_row(item: RolloutItem, session_id: str) -> Row:
    """Return the row of a rollout item."""
    return {
        "session_id": session_id,
        "seq": item.seq,
        "kind": item.kind.value,
        "at": item.at,
        "message_id": item.message_id,
        "line": item.to_line(),
        "hash": item.hash,
        "prev": item.prev,
    }


def row_to_item(row: Row) -> RolloutItem:
    """Return the rollout item of a row.

    Raises:
        DamagedRolloutError: the line is not what was written, or a column contradicts it.
    """
    session_id, seq, line = row["session_id"], row["seq"], row["line"]
    if not isinstance(line, bytes):  # SQLite keeps any type in any column
        raise DamagedRolloutError(session_id, seq, "its line is not bytes")
    item = parse_line(line, session_id=session_id, seq=seq)
    expected = item_to_row(item, session_id)
    for name in row:
        if row[name] != expected[name]:
            raise DamagedRolloutError(session_id, seq, f"its column {name} contradicts its line")
    return item


def _plain(record: Task | Run | Lease | Execution | KeptSetup) -> dict[str, Any]:
    """Return a record's fields by name; dataclasses.asdict would take nested values apart."""
    return {one.name: getattr(record, one.name) for one in fields(record)}


def _verify_to_text(result: VerifyResult | None) -> str | None:
    return None if result is None else _VERIFY.dump_json(result).decode()


def _text_to_verify(text: str | None) -> VerifyResult | None:
    return None if text is None else _VERIFY.validate_json(text)
