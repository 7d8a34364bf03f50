"""Collect what a task or a batch has come to from the store and its snapshots."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from runner.application.flagged_paths import list_flagged
from runner.application.ports.store import StoreReader
from runner.application.report import (
    BatchReport,
    TaskFiles,
    TaskReport,
    measure_clocks,
)
from runner.application.services import Services
from runner.domain.ids import BatchId, TaskId
from runner.domain.items import RolloutItem, SnapshotItem
from runner.domain.records import Task
from sandbox import Snapshot, SnapshotId


class Ends(NamedTuple):
    """The first and the last snapshot of a session."""

    base: Snapshot
    last: Snapshot


def describe_task(task_id: TaskId, services: Services) -> TaskReport:
    """Return a task's report with its files.

    Raises:
        NotFoundError: there is no such task.
        SandboxError: the snapshots cannot be compared.
    """
    with services.store.read() as view:
        task = view.get_task(task_id)
        runs = tuple(view.list_runs(task_id))
        ends = find_ends(view, view.list_items(task.session_id))
    files = None
    if ends is not None:
        changes = services.host.changes_between(ends.base, ends.last)
        flagged = list_flagged(ends.base, ends.last, changes, host=services.host)
        files = TaskFiles(snapshot=ends.last, changes=changes, flagged=flagged)
    return TaskReport(
        task=task,
        runs=runs,
        clocks=measure_clocks(runs, now=services.clock.now()),
        base_snapshot_id=ends.base.snapshot_id if ends else "",
        snapshot_id=ends.last.snapshot_id if ends else "",
        files=files,
    )


def describe_row(task_id: TaskId, services: Services) -> TaskReport:
    """Return a task's report without its files and snapshots.

    Raises:
        NotFoundError: there is no such task.
    """
    with services.store.read() as view:
        return _describe_row(view, view.get_task(task_id), services, snapshots=False)


def list_task_reports(
    services: Services, batch_id: BatchId | None = None, *, snapshots: bool = False
) -> list[TaskReport]:
    """Return the reports of a batch's tasks (or of all), without their files.

    Args:
        snapshots: also name the first and last snapshot, which reads every rollout.
    """
    with services.store.read() as view:
        if snapshots:
            tasks = view.list_tasks(batch_id)
            return [_describe_row(view, task, services, snapshots=True) for task in tasks]
        return _describe_rows(view, view.list_tasks(batch_id), services, batch_id)


def _describe_row(
    view: StoreReader, task: Task, services: Services, *, snapshots: bool
) -> TaskReport:
    runs = tuple(view.list_runs(task.task_id))
    ends = find_ends(view, view.list_items(task.session_id)) if snapshots else None
    return TaskReport(
        task=task,
        runs=runs,
        clocks=measure_clocks(runs, now=services.clock.now()),
        base_snapshot_id=ends.base.snapshot_id if ends else "",
        snapshot_id=ends.last.snapshot_id if ends else "",
    )


class BatchFollower:
    """Looks at one batch again and again; what never changes is read once."""

    def __init__(self, batch_id: BatchId, services: Services) -> None:
        self._services = services
        with services.store.read() as view:
            self._batch = view.get_batch(batch_id)
            self._tasks = tuple(view.list_tasks(batch_id))

    def look(self) -> BatchReport:
        """Return the batch as it stands, without files; one query where nothing was retried."""
        with self._services.store.read() as view:
            batch_id = self._batch.batch_id
            rows = _describe_rows(view, self._tasks, self._services, batch_id)
        return BatchReport(batch=self._batch, tasks=tuple(rows))


def _describe_rows(
    view: StoreReader, tasks: Sequence[Task], services: Services, batch_id: BatchId | None
) -> list[TaskReport]:
    now = services.clock.now()
    reports = []
    for task, last in zip(tasks, view.list_last_runs(batch_id), strict=True):
        runs = (last,) if last.number == 1 else tuple(view.list_runs(task.task_id))
        clocks = measure_clocks(runs, now=now)
        reports.append(TaskReport(task=task, runs=runs, clocks=clocks))
    return reports


def describe_batch(batch_id: BatchId, services: Services) -> BatchReport:
    """Return a batch's report.

    Raises:
        NotFoundError: there is no such batch.
    """
    with services.store.read() as view:
        batch = view.get_batch(batch_id)
    return BatchReport(batch=batch, tasks=tuple(list_task_reports(services, batch_id)))


def find_ends(view: StoreReader, items: Sequence[RolloutItem]) -> Ends | None:
    """Return the first and the last snapshot of a rollout, or None when it has none yet."""
    ids = [item.payload.snapshot_id for item in items if isinstance(item.payload, SnapshotItem)]
    if not ids:
        return None
    base, last = (view.get_snapshot(SnapshotId(one)) for one in (ids[0], ids[-1]))
    return Ends(base, last)
