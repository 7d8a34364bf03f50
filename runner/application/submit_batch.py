"""Store a batch: from here on the store is what happens next."""

from __future__ import annotations

from pathlib import Path

from runner.application.services import Services
from runner.domain.ids import BatchId, RunId, SessionId, TaskId
from runner.domain.outcome import RunState
from runner.domain.records import Batch, Run, Task
from runner.domain.task import BatchSpec


def submit_batch(spec: BatchSpec, services: Services, *, results: Path) -> Batch:
    """Store a batch, its tasks and their first runs in one transaction.

    Args:
        results: folder that gets `<batch name>/<batch id>/`.
    """
    now = services.clock.now()
    batch_id = BatchId(services.make_id("batch"))
    batch = Batch(
        batch_id=batch_id,
        spec=spec,
        results_dir=str(results / spec.name / batch_id),
        created_at=now,
    )
    with services.store.write() as writer:
        writer.add_batch(batch)
        for position, task_spec in enumerate(spec.tasks):
            task = Task(
                task_id=TaskId(services.make_id("task")),
                batch_id=batch_id,
                session_id=SessionId(services.make_id("session")),
                position=position,
                spec=task_spec,
                created_at=now,
            )
            writer.add_task(task)
            writer.add_run(make_run(task, services, number=1))
    return batch


def make_run(task: Task, services: Services, *, number: int) -> Run:
    """Return a queued run of a task."""
    return Run(
        run_id=RunId(services.make_id("run")),
        task_id=task.task_id,
        batch_id=task.batch_id,
        session_id=task.session_id,
        number=number,
        state=RunState.QUEUED,
        created_at=services.clock.now(),
    )
