"""What the store says is due, and what dead processes have left behind."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import structlog

from runner.application.ports.store import StoreReader
from runner.application.services import Services
from runner.domain.ids import BatchId
from runner.domain.outcome import RunState
from runner.domain.records import Run
from sandbox import SandboxError

log = structlog.get_logger()


def break_dead_leases(services: Services) -> int:
    """End the leases of processes of this host that are gone; return how many."""
    with services.store.read() as view:
        leases = view.list_leases()
    broken = 0
    for lease in leases:
        if services.is_holder_gone(lease.holder) and services.store.break_lease(lease):
            log.warning("lease.broken", run_id=lease.run_id, holder=lease.holder)
            broken += 1
    return broken


def list_due_runs(
    view: StoreReader, now: datetime, *, batch_id: BatchId | None = None
) -> Sequence[Run]:
    """Return the runs that nobody works on and somebody should, in dispatch order.

    Queued ones, and running ones whose lease has lapsed or was broken; oldest first.
    """
    held = {lease.run_id for lease in view.list_leases() if lease.expires_at > now}
    return [
        run
        for run in view.list_runs_in((RunState.QUEUED, RunState.RUNNING))
        if run.run_id not in held and batch_id in (None, run.batch_id)
    ]


def remove_leftovers(services: Services) -> None:
    """Remove containers and volumes of runs that nobody works on; what fails is tried later."""
    try:
        removed = services.host.reap(lambda: list_live_attempts(services))
    except SandboxError as error:
        log.warning("leftovers.kept", problem=str(error))
        return
    if removed:
        log.warning("leftovers.removed", count=removed)


def list_live_attempts(services: Services) -> set[tuple[str, int]]:
    """Return (task id, attempt) of every run that some process holds a live lease on."""
    now = services.clock.now()
    with services.store.read() as view:
        leases = [lease for lease in view.list_leases() if lease.expires_at > now]
        runs = [view.get_run(lease.run_id) for lease in leases]
    return {(run.task_id, run.attempt) for run in runs}
