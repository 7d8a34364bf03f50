"""Cancel: a durable mark first; whoever works on the run sees it within a second."""

from __future__ import annotations

from runner.application.close_unstarted import close_run
from runner.application.services import Services
from runner.domain.ids import BatchId, TaskId
from runner.domain.outcome import Outcome, RunState
from runner.domain.records import Run


def cancel_batch(batch_id: BatchId, services: Services) -> int:
    """Mark a batch and its tasks; end what has not started.

    Returns:
        How many tasks had not ended yet.

    Raises:
        NotFoundError: there is no such batch.
    """
    with services.store.write() as writer:
        writer.get_batch(batch_id)
        writer.cancel_batch(batch_id, services.clock.now())
        runs = writer.list_last_runs(batch_id)
    return sum(1 for run in runs if _close(run, services))


def cancel_task(task_id: TaskId, services: Services) -> bool:
    """Mark a task; end it where it has not started. False when it had ended already.

    Raises:
        NotFoundError: there is no such task.
    """
    with services.store.write() as writer:
        writer.get_task(task_id)
        writer.cancel_task(task_id, services.clock.now())
        run = writer.list_runs(task_id)[-1]
    return _close(run, services)


def _close(run: Run, services: Services) -> bool:
    if run.state.terminal:
        return False
    if run.state is RunState.QUEUED and run.started_at is None:
        close_run(run, services, outcome=Outcome.CANCELLED, reason="cancelled before it started")
    return True
