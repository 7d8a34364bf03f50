"""What every store promises about leases: who may write on behalf of a run."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta, timezone

import pytest
from store_builders import (
    LATER,
    NOON,
    RUN,
    SESSION,
    add_task_with_run,
    claim,
    hold,
    said,
)

from runner.domain.ids import RunId
from runner.domain.outcome import RunState
from runner.domain.records import Lease
from runner.errors import StaleLeaseError


def test_a_claim_gives_a_lease_and_counts_an_attempt(filled):
    lease = hold(filled)

    assert lease == Lease(
        run_id=RUN, token=lease.token, holder="us", expires_at=NOON + timedelta(seconds=60)
    )
    with filled.read() as reader:
        assert reader.find_lease(RUN) == lease
        assert list(reader.list_leases()) == [lease]
        assert reader.get_run(RUN).attempt == 1


def test_a_live_lease_keeps_others_out(filled):
    hold(filled)

    assert claim(filled, holder="them", at=NOON + timedelta(seconds=59)) is None
    assert claim(filled, holder="us") is None
    with filled.read() as reader:
        assert reader.get_run(RUN).attempt == 1


def test_a_lapsed_lease_is_taken_over_with_a_higher_token(filled):
    old = hold(filled)

    new = hold(filled, holder="them", at=NOON + timedelta(seconds=60))

    assert new.token > old.token
    with filled.read() as reader:
        assert reader.get_run(RUN).attempt == 2
        assert reader.find_lease(RUN) == new


@pytest.mark.parametrize(
    "state",
    [RunState.COMPLETED, RunState.BUDGET_EXHAUSTED, RunState.FAILED, RunState.CANCELLED],
)
def test_an_ended_run_cannot_be_claimed(store, state):
    add_task_with_run(store, state=state)

    assert claim(store) is None


def test_an_unknown_run_cannot_be_claimed(store):
    assert claim(store, RunId("x")) is None
    with store.read() as reader:
        assert reader.find_lease(RunId("x")) is None


def test_of_twenty_threads_that_claim_a_run_one_wins(filled):
    start = threading.Barrier(20)

    def race(number: int) -> Lease | None:
        start.wait()
        return claim(filled, holder=str(number))

    with ThreadPoolExecutor(20) as pool:
        leases = [one for one in pool.map(race, range(20)) if one is not None]

    assert len(leases) == 1
    with filled.read() as reader:
        assert reader.find_lease(RUN) == leases[0]
        assert reader.get_run(RUN).attempt == 1


def test_a_write_under_the_current_lease_is_kept_even_if_lapsed(filled):
    lease = hold(filled)

    with filled.write(lease) as writer:
        writer.append_items(SESSION, [said()], at=LATER)

    with filled.read() as reader:
        assert reader.count_items(SESSION)[0] == 1


def test_a_stalled_worker_that_wakes_up_changes_nothing(filled):
    old = hold(filled)
    hold(filled, holder="them", at=LATER)

    with pytest.raises(StaleLeaseError, match="r1"), filled.write(old) as writer:
        writer.append_items(SESSION, [said()], at=LATER)

    with filled.read() as reader:
        assert reader.count_items(SESSION) == (0, "")


def test_a_lease_that_was_given_back_writes_no_more(filled):
    lease = hold(filled)
    filled.release_lease(lease)

    with pytest.raises(StaleLeaseError), filled.write(lease):
        pass
    with filled.read() as reader:
        assert reader.find_lease(RUN) is None
        assert list(reader.list_leases()) == []


def test_a_token_grows_also_after_the_lease_was_given_back(filled):
    first = hold(filled)
    filled.release_lease(first)

    second = hold(filled)

    assert second.token > first.token


def test_a_stale_release_is_ignored(filled):
    old = hold(filled)
    new = hold(filled, holder="them", at=LATER)

    filled.release_lease(old)

    with filled.read() as reader:
        assert reader.find_lease(RUN) == new


def test_a_renewed_lease_ends_later_and_writes_on(filled):
    lease = hold(filled)

    renewed = filled.renew_lease(lease, now=LATER, seconds=60)

    assert renewed.token == lease.token
    assert renewed.expires_at == LATER + timedelta(seconds=60)
    with filled.read() as reader:
        assert reader.find_lease(RUN) == renewed
    with filled.write(lease) as writer:  # a writer may still hold the older value
        writer.append_items(SESSION, [said()], at=LATER)


def test_a_lease_that_passed_on_cannot_be_renewed(filled):
    old = hold(filled)
    new = hold(filled, holder="them", at=LATER)

    with pytest.raises(StaleLeaseError):
        filled.renew_lease(old, now=LATER, seconds=600)

    with filled.read() as reader:
        assert reader.find_lease(RUN) == new


def test_a_broken_lease_is_free_at_once_and_its_holder_writes_no_more(filled):
    lease = hold(filled)

    assert filled.break_lease(lease) is True

    with pytest.raises(StaleLeaseError), filled.write(lease):
        pass
    assert hold(filled, holder="them").token > lease.token


def test_a_lease_that_moved_on_is_not_broken(filled):
    lease = hold(filled)
    renewed = filled.renew_lease(lease, now=NOON, seconds=600)

    assert filled.break_lease(lease) is False
    with filled.read() as reader:
        assert reader.find_lease(RUN) == renewed


def test_s04_a_lease_lapses_at_the_same_instant_in_any_zone(filled):
    kolkata = timezone(timedelta(hours=5, minutes=30))
    hold(filled, at=NOON.astimezone(kolkata))

    assert claim(filled, holder="them", at=NOON + timedelta(seconds=59)) is None
    assert claim(filled, holder="them", at=NOON + timedelta(seconds=60)) is not None
