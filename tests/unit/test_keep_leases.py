"""Heartbeats: a store that fails for a moment ends none, and cancellations arrive."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

from run_builders import FINISH, FIX, Yard, shell

from runner.adapters.memory_store import MemoryStore
from runner.adapters.memory_tables import MemoryReader
from runner.application.cancel import cancel_task
from runner.application.keep_leases import LeaseKeeper
from runner.application.stopping import StopFlag, StopReason
from runner.application.work_run import LEASE_SECONDS
from runner.domain.ids import RunId
from runner.domain.records import Lease
from runner.errors import StoreBusyError

GOOD = ([shell(FIX)], [FINISH])


class BusyStore(MemoryStore):
    """Fails as often as it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.failing_reads = 0
        self.failing_renewals = 0

    @contextmanager
    def read(self) -> Iterator[MemoryReader]:
        if self.failing_reads:
            self.failing_reads -= 1
            raise StoreBusyError("locked")
        with super().read() as view:
            yield view

    def renew_lease(self, lease: Lease, *, now: datetime, seconds: float) -> Lease:
        if self.failing_renewals:
            self.failing_renewals -= 1
            raise StoreBusyError("locked")
        return super().renew_lease(lease, now=now, seconds=seconds)


def hold(yard: Yard, keeper: LeaseKeeper) -> StopFlag:
    lease = yard.store.claim_run(
        yard.run.run_id, holder="here", now=yard.clock.now(), seconds=LEASE_SECONDS
    )
    assert lease is not None
    stop = StopFlag()
    keeper.hold(yard.task, lease, stop)
    return stop


def is_live(yard: Yard) -> bool:
    with yard.store.read() as view:
        lease = view.find_lease(yard.run.run_id)
    return lease is not None and lease.expires_at > yard.clock.now()


def test_a_lease_is_renewed_long_before_it_lapses() -> None:
    yard = Yard(*GOOD)
    keeper = LeaseKeeper(yard.services)
    stop = hold(yard, keeper)

    for _ in range(10):
        yard.clock.advance(LEASE_SECONDS / 2)
        keeper.look()

    assert is_live(yard)
    assert not stop.is_set()


def test_a_store_that_fails_for_a_moment_ends_no_heartbeat() -> None:
    store = BusyStore()
    yard = Yard(*GOOD, store=store)
    keeper = LeaseKeeper(yard.services)
    stop = hold(yard, keeper)
    yard.clock.advance(LEASE_SECONDS / 2)
    store.failing_reads = store.failing_renewals = 1

    keeper.look()
    keeper.look()
    yard.clock.advance(LEASE_SECONDS / 2 + 1)

    assert is_live(yard)
    assert not stop.is_set()


def test_one_lost_lease_takes_no_heartbeat_from_the_others() -> None:
    yard = Yard(*GOOD)
    keeper = LeaseKeeper(yard.services)
    lost = StopFlag()
    gone = Lease(run_id=RunId("rgone"), token=1, holder="here", expires_at=yard.clock.now())
    keeper.hold(yard.task, gone, lost)
    kept = hold(yard, keeper)
    yard.clock.advance(LEASE_SECONDS / 2)

    keeper.look()
    yard.clock.advance(LEASE_SECONDS / 2 + 1)

    assert lost.reason is StopReason.LEASE_LOST
    assert is_live(yard)
    assert not kept.is_set()


def test_a_cancellation_reaches_the_run() -> None:
    yard = Yard(*GOOD)
    keeper = LeaseKeeper(yard.services)
    stop = hold(yard, keeper)

    cancel_task(yard.task.task_id, yard.services)
    keeper.look()

    assert stop.reason is StopReason.CANCELLED
