"""One setup at a time for each key: who makes it, who waits, and what the waiting ones have."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from store_builders import make_setup, make_snapshot

from runner.application.shared_setups import SetupDone, SharedSetups
from runner.application.stopping import RunStoppedError, StopFlag, StopReason
from runner.domain.ids import SetupKey
from runner.domain.records import SetupResult

KEY = SetupKey("sha256:key")
PASSED = SetupDone(
    SetupResult(passed=True, exit_code=0, log=make_setup().log), start=make_snapshot()
)
FAILED = SetupDone(
    SetupResult(passed=False, exit_code=1, detail="exit code 1", log=make_setup().log), None
)


class Maker:
    """A setup that ends when it is told to."""

    def __init__(self, done: SetupDone | None) -> None:
        self._done = done
        self.begun = threading.Event()
        self.may_end = threading.Event()

    def make(self) -> SetupDone:
        self.begun.set()
        assert self.may_end.wait(10)
        if self._done is None:
            raise RunStoppedError(StopReason.SUSPENDED)
        return self._done


class NotingStop(StopFlag):
    """Notes that whoever has it waits."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = threading.Event()

    def check(self) -> None:
        self.asked.set()
        super().check()


def unexpected() -> SetupDone:
    pytest.fail("a second setup of the key was made")


@pytest.mark.parametrize("done", [PASSED, FAILED])
def test_who_waits_shares_the_end_good_or_bad(done: SetupDone) -> None:
    shared, maker = SharedSetups(look_seconds=0.001), Maker(done)
    with ThreadPoolExecutor(4) as pool:
        first = pool.submit(shared.join, KEY, maker.make, stop=StopFlag())
        assert maker.begun.wait(10)
        stops = [NotingStop() for _ in range(3)]
        others = [pool.submit(shared.join, KEY, unexpected, stop=stop) for stop in stops]
        assert all(stop.asked.wait(10) for stop in stops)
        maker.may_end.set()

        assert first.result() == done
        assert [one.result().start for one in others] == [done.start] * 3
        assert all(one.result().result.reused for one in others)
        assert not first.result().result.reused


def test_where_the_maker_is_stopped_a_waiting_run_makes_it() -> None:
    shared, stopped = SharedSetups(look_seconds=0.001), Maker(None)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(shared.join, KEY, stopped.make, stop=StopFlag())
        assert stopped.begun.wait(10)
        second = pool.submit(shared.join, KEY, lambda: PASSED, stop=StopFlag())
        stopped.may_end.set()

        with pytest.raises(RunStoppedError):
            first.result()
        assert second.result() == PASSED


def test_a_waiting_run_that_is_stopped_waits_no_longer() -> None:
    shared, maker, stop = SharedSetups(look_seconds=0.001), Maker(PASSED), StopFlag()
    with ThreadPoolExecutor(2) as pool:
        pool.submit(shared.join, KEY, maker.make, stop=StopFlag())
        assert maker.begun.wait(10)
        waiting = pool.submit(shared.join, KEY, unexpected, stop=stop)
        stop.stop(StopReason.CANCELLED)

        with pytest.raises(RunStoppedError):
            waiting.result()
        maker.may_end.set()


def test_a_failure_is_not_remembered() -> None:
    shared = SharedSetups(look_seconds=0.001)

    assert shared.join(KEY, lambda: FAILED, stop=StopFlag()) == FAILED
    assert shared.join(KEY, lambda: PASSED, stop=StopFlag()) == PASSED


def test_other_keys_do_not_wait() -> None:
    shared, maker = SharedSetups(look_seconds=0.001), Maker(PASSED)
    with ThreadPoolExecutor(1) as pool:
        pool.submit(shared.join, KEY, maker.make, stop=StopFlag())
        assert maker.begun.wait(10)

        assert shared.join(SetupKey("other"), lambda: FAILED, stop=StopFlag()) == FAILED
        maker.may_end.set()
