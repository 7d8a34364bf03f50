"""Close a run without touching its rollout: it never started, or its records cannot be used."""

from __future__ import annotations

from dataclasses import replace

from runner.application.services import Services
from runner.domain.outcome import Outcome
from runner.domain.records import Run
from runner.errors import StaleVersionError


def close_run(run: Run, services: Services, *, outcome: Outcome, reason: str) -> bool:
    """Store the end of a run, anchored as it is; False when somebody took it meanwhile."""
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
