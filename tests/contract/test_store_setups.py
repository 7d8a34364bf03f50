"""What every store promises of setups: the double, and SQLite."""

from __future__ import annotations

import pytest
from store_builders import LATER, RUN, claim, hold, make_run, make_setup, make_snapshot

from runner.domain.ids import EvidenceId, SetupKey
from runner.domain.outcome import RunState
from runner.domain.records import SetupResult
from runner.errors import NotFoundError, StaleLeaseError
from sandbox import SnapshotId


@pytest.fixture
def ready(filled):
    """A store with the snapshots and the log that setups of these tests name."""
    with filled.write() as writer:
        writer.add_snapshot(make_snapshot())
        writer.add_snapshot(make_snapshot(snapshot_id=SnapshotId("sha256:other")))
        writer.put_evidence(b"log")
    return filled


def test_a_setup_that_nobody_ran_is_not_found(store):
    with store.read() as reader:
        assert reader.find_setup(SetupKey("sha256:key")) is None


def test_a_setup_comes_back_as_it_was_kept(ready):
    with ready.write() as writer:
        assert writer.add_setup(make_setup()) == make_setup()

    with ready.read() as reader:
        assert reader.find_setup(SetupKey("sha256:key")) == make_setup()


def test_of_two_setups_of_a_key_the_first_is_kept_and_told(ready):
    late = make_setup(snapshot_id=SnapshotId("sha256:other"), created_at=LATER)
    with ready.write() as writer:
        writer.add_setup(make_setup())

    with ready.write() as writer:
        assert writer.add_setup(late) == make_setup()

    with ready.read() as reader:
        assert reader.find_setup(SetupKey("sha256:key")) == make_setup()


@pytest.mark.parametrize(
    "setup",
    [
        make_setup(snapshot_id=SnapshotId("sha256:nowhere")),
        make_setup(log=EvidenceId("sha256:nowhere")),
    ],
)
def test_a_setup_without_its_snapshot_or_log_is_refused(ready, setup):
    with pytest.raises(NotFoundError), ready.write() as writer:
        writer.add_setup(setup)

    with ready.read() as reader:
        assert reader.find_setup(setup.setup_key) is None


def test_a_worker_that_lost_its_lease_keeps_no_setup(ready):
    stale = hold(ready)
    claim(ready, holder="them", at=LATER)

    with pytest.raises(StaleLeaseError), ready.write(stale) as writer:
        writer.add_setup(make_setup())

    with ready.read() as reader:
        assert reader.find_setup(SetupKey("sha256:key")) is None


def test_a_runs_setup_comes_back_without_what_no_store_carries(ready):
    result = SetupResult(
        passed=False, exit_code=1, detail="a\0b", log=make_setup().log, milliseconds=5, reused=True
    )
    with ready.write() as writer:
        writer.save_run(make_run(setup=result), expected=RunState.QUEUED)

    with ready.read() as reader:
        found = reader.get_run(RUN).setup
    assert found is not None
    assert found.detail == "a\N{REPLACEMENT CHARACTER}b"
    assert (found.exit_code, found.milliseconds, found.reused) == (1, 5, True)
