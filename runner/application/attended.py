"""Whether a process works on a batch that has not ended, as the leases in the store tell it."""

from __future__ import annotations

from runner.application.report import BatchReport
from runner.application.services import Services
from runner.domain.outcome import RunState

DUE = (RunState.QUEUED, RunState.RUNNING)


def is_unattended(report: BatchReport, services: Services) -> bool:
    """Tell whether runs of a batch are due or under way and no live process holds any of them.

    A process that has found no room yet for any of them holds none either.
    """
    due = {task.run.run_id for task in report.tasks if task.state in DUE}
    if not due:
        return False
    now = services.clock.now()
    with services.store.read() as view:
        leases = view.list_leases()
    return not any(
        lease.run_id in due
        and lease.expires_at > now
        and not services.is_holder_gone(lease.holder)
        for lease in leases
    )
