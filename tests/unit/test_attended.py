"""A batch that has not ended: does a live process work on it?"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from run_builders import FINISH, FIX, Yard, shell

from runner.application.attended import is_unattended
from runner.application.describe_task import describe_batch


def ask(yard: Yard, *, gone: bool = False) -> bool:
    services = replace(yard.services, is_holder_gone=lambda _holder: gone)
    return is_unattended(describe_batch(yard.batch.batch_id, services), services)


def claim(yard: Yard) -> None:
    run = describe_batch(yard.batch.batch_id, yard.services).tasks[0].run
    lease = yard.store.claim_run(
        run.run_id, holder="here:boot:1:1", now=yard.clock.now(), seconds=60
    )
    assert lease is not None


def make_yard() -> Yard:
    return Yard([shell(FIX)], [FINISH])


def test_a_batch_that_was_only_submitted_is_unattended() -> None:
    assert ask(make_yard())


def test_a_live_lease_is_somebody_at_work() -> None:
    yard = make_yard()
    claim(yard)

    assert not ask(yard)


def test_a_holder_that_is_gone_is_nobody() -> None:
    yard = make_yard()
    claim(yard)

    assert ask(yard, gone=True)


def test_a_lapsed_lease_is_nobody() -> None:
    yard = make_yard()
    claim(yard)
    yard.clock.advance(timedelta(seconds=61).total_seconds())

    assert ask(yard)


def test_a_batch_that_has_ended_needs_nobody() -> None:
    yard = make_yard()
    yard.work()

    assert not ask(yard)
