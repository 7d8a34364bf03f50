"""Ends for runs that nobody works on: cancelled, past their deadline, or too big for this host."""

from __future__ import annotations

from datetime import datetime, timedelta

from policies import Limits
from runner.application.capacity import Capacity
from runner.application.close_run import close_run
from runner.application.end_run import RunEnd, end_run
from runner.application.services import Services
from runner.application.stopping import StopFlag
from runner.application.work_run import LEASE_SECONDS, UNUSABLE, close_unusable, open_claimed
from runner.domain.outcome import Outcome
from runner.domain.records import Batch, Run, Task
from runner.errors import StaleLeaseError


def find_cancelled(run: Run, task: Task) -> RunEnd | None:
    """Return the end of a cancelled task's run, or None."""
    if task.cancelled_at is None:
        return None
    started = run.started_at is not None
    return RunEnd(Outcome.CANCELLED, "cancelled" if started else "cancelled before it started")


def find_expired(run: Run, batch: Batch, *, now: datetime) -> RunEnd | None:
    """Return the end of a run that has not started by its batch's deadline, or None."""
    minutes = batch.spec.budget.deadline_minutes
    if run.started_at is not None or not minutes:
        return None
    if now <= batch.created_at + timedelta(minutes=minutes):
        return None
    reason = f"not started within the batch's deadline of {minutes} minutes"
    return RunEnd(Outcome.EXPIRED, reason)


def find_misfit(limits: Limits, capacity: Capacity) -> RunEnd | None:
    """Return the end of a run that this host can never carry, or None."""
    if capacity.can_ever_hold(limits):
        return None
    size = capacity.size
    return RunEnd(
        Outcome.INFRASTRUCTURE_ERROR,
        f"the policy asks for {limits.memory_mib} MiB and {limits.cpu_thousandths / 1000:g} CPUs; "
        f"this host has {size.memory_mib} MiB and {size.cpu_thousandths / 1000:g} to give",
    )


def end_idle_run(run: Run, services: Services, end: RunEnd) -> bool:
    """End a run, its open calls answered; False when somebody works on it or has ended it."""
    if run.started_at is None:
        return close_run(run, services, outcome=end.outcome, reason=end.reason)
    lease = services.store.claim_run(
        run.run_id, holder=services.holder, now=services.clock.now(), seconds=LEASE_SECONDS
    )
    if lease is None:
        return False
    with services.store.read() as view:
        claimed, task = view.get_run(run.run_id), view.get_task(run.task_id)
    try:
        session = open_claimed(services, task, claimed, lease=lease, stop=StopFlag())
        end_run(session, end)
    except UNUSABLE as error:
        close_unusable(claimed, services, error)
    except StaleLeaseError:
        return False
    finally:
        services.store.release_lease(lease)
    return True
