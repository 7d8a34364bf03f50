"""Ends for runs that never start: cancelled, past their deadline, or too big for this host."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from policies import Limits
from runner.application.capacity import Capacity
from runner.application.services import Services
from runner.domain.outcome import Outcome
from runner.domain.records import Batch, Run, Task
from runner.errors import StaleVersionError


def find_closing(
    task: Task, batch: Batch, services: Services, *, limits: Limits, capacity: Capacity
) -> tuple[Outcome, str] | None:
    """Return the outcome and reason of a run that must not start, or None."""
    if task.cancelled_at is not None:
        return Outcome.CANCELLED, "cancelled before it started"
    minutes = batch.spec.budget.deadline_minutes
    if minutes and services.clock.now() > batch.created_at + timedelta(minutes=minutes):
        return Outcome.EXPIRED, f"not started within the batch's deadline of {minutes} minutes"
    if not capacity.can_ever_hold(limits):
        size = capacity.size
        return Outcome.INFRASTRUCTURE_ERROR, (
            f"the policy asks for {limits.memory_mib} MiB and "
            f"{limits.cpu_thousandths / 1000:g} CPUs; "
            f"this host has {size.memory_mib} MiB and {size.cpu_thousandths / 1000:g} to give"
        )
    return None


def close_run(run: Run, services: Services, *, outcome: Outcome, reason: str) -> bool:
    """End a run that nobody works on; False when somebody took it meanwhile."""
    ended = replace(
        run,
        state=outcome.state,
        outcome=outcome,
        reason=reason,
        ended_at=services.clock.now(),
    )
    try:
        with services.store.write() as writer:
            items, head = writer.count_items(run.session_id)
            writer.save_run(replace(ended, items=items, head=head), expected=run.state)
    except StaleVersionError:
        return False
    return True
