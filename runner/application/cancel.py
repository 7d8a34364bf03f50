"""Cancel: a durable mark first; whoever works on the run sees it within a second.

A run that nobody works on (not started, suspended, cut off, waiting for a person) ends here.
"""

from __future__ import annotations

from collections.abc import Sequence

from runner.application.end_idle_run import end_idle_run, find_cancelled
from runner.application.recover import break_dead_leases, remove_leftovers
from runner.application.services import Services
from runner.domain.ids import BatchId, TaskId
from runner.domain.records import Run


def cancel_batch(batch_id: BatchId, services: Services) -> int:
    """Mark a batch and its tasks; end what nobody works on.

    Returns:
        How many tasks had not ended yet.

    Raises:
        NotFoundError: there is no such batch.
    """
    with services.store.write() as writer:
        writer.get_batch(batch_id)
        writer.cancel_batch(batch_id, services.clock.now())
        runs = [run for run in writer.list_last_runs(batch_id) if not run.state.terminal]
    _end_idle(runs, services)
    return len(runs)


def cancel_task(task_id: TaskId, services: Services) -> bool:
    """Mark a task; end it where nobody works on it. False when it had ended already.

    Raises:
        NotFoundError: there is no such task.
    """
    with services.store.write() as writer:
        writer.get_task(task_id)
        writer.cancel_task(task_id, services.clock.now())
        run = writer.list_runs(task_id)[-1]
    if run.state.terminal:
        return False
    _end_idle([run], services)
    return True


def _end_idle(runs: Sequence[Run], services: Services) -> None:
    break_dead_leases(services)
    for run in runs:
        with services.store.read() as view:
            end = find_cancelled(run, view.get_task(run.task_id))
        if end is not None:
            end_idle_run(run, services, end)
    if any(run.attempt for run in runs):
        remove_leftovers(services)
