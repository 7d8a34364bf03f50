"""What a run's clocks count, and checks before the agent that are made once for many."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from run_builders import FINISH, FIX, Yard, shell

from runner.application.batch_limits import BatchLimits
from runner.application.stopping import RunStoppedError, StopFlag, StopReason
from runner.application.verify_task import VerifyCache
from runner.domain.outcome import Outcome
from runner.domain.records import Batch, VerifyResult
from runner.domain.task import BudgetSpec
from sandbox import EngineError, Sandbox, SandboxSpec
from sandbox.testing import Fault, FaultPoint, MemorySandboxHost
from sandbox.testing_programs import FakeProgram, ProgramCall, ProgramOutcome

GOOD = ([shell(FIX)], [FINISH])

PASSED = VerifyResult(passed=True, exit_code=0, runs=1, flaky=False)


class SlowHost(MemorySandboxHost):
    """Takes ten minutes to make a sandbox, and one to remove it."""

    advance: Callable[[float], None]
    """Set by the test."""

    @contextmanager
    def open_sandbox(self, spec: SandboxSpec) -> Iterator[Sandbox]:
        self.advance(600)
        with super().open_sandbox(spec) as sandbox:
            yield sandbox
        self.advance(60)


class SlowSlots(BatchLimits):
    """Makes every model call wait ten minutes for its slot."""

    def __init__(self, yard: Yard) -> None:
        super().__init__()
        self._yard = yard

    @contextmanager
    def model_call(self, batch: Batch, stop: StopFlag) -> Iterator[None]:
        self._yard.clock.advance(600)
        with super().model_call(batch, stop):
            yield


def test_making_sandboxes_and_verifying_are_no_time_of_the_agent() -> None:
    yard = Yard(*GOOD, make_host=SlowHost, budget=BudgetSpec(wall_seconds=60))
    yard.host.advance = yard.clock.advance

    run = yard.work()

    assert run.outcome is Outcome.VERIFIED
    assert run.usage.wall_milliseconds == 0


def test_waiting_for_a_model_slot_is_no_time_of_the_agent() -> None:
    yard = Yard(*GOOD, budget=BudgetSpec(wall_seconds=60))

    run = yard.work(replace(yard.desk(), limits=SlowSlots(yard)))

    assert run.outcome is Outcome.VERIFIED
    assert run.usage.wall_milliseconds == 0


def test_the_agents_own_commands_are_its_time() -> None:
    yard = Yard([shell("wait")], [FINISH], budget=BudgetSpec(wall_seconds=60))

    def wait(_program: ProgramCall) -> ProgramOutcome:
        yard.clock.advance(61)
        return ProgramOutcome()

    yard.host.programs.append(FakeProgram(name="wait", run=wait))

    run = yard.work()

    assert run.outcome is Outcome.TIMED_OUT
    assert run.usage.wall_milliseconds == 61_000


def test_checking_before_and_after_is_on_the_clock_of_verification() -> None:
    yard = Yard(*GOOD, make_host=SlowHost)
    yard.host.advance = yard.clock.advance

    assert yard.work().verify_milliseconds == 2 * 660_000


def test_a_budget_end_stays_when_the_check_after_it_cannot_be_made() -> None:
    yard = Yard(*GOOD, budget=BudgetSpec(model_calls=1))
    yard.host.plan(Fault(FaultPoint.OPEN, EngineError("no answer"), skip=2))

    run = yard.work()

    assert run.outcome is Outcome.BUDGET_EXHAUSTED
    assert "no answer" in run.reason


def test_waiting_for_anothers_check_ends_when_the_run_is_told_to_stop() -> None:
    cache, stop = VerifyCache(), StopFlag()
    making, done = threading.Event(), threading.Event()

    def make() -> VerifyResult:
        making.set()
        done.wait(timeout=10)
        return PASSED

    other = threading.Thread(target=lambda: cache.get_or_make("key", make, stop=StopFlag()))
    other.start()
    making.wait(timeout=10)
    stop.stop(StopReason.SUSPENDED)

    with pytest.raises(RunStoppedError):
        cache.get_or_make("key", lambda: PASSED, stop=stop)

    done.set()
    other.join(timeout=10)


def test_a_cache_of_checks_keeps_only_the_newest() -> None:
    cache = VerifyCache(most=2)
    made: list[str] = []

    for key in ("a", "b", "c", "a", "c"):

        def make(key: str = key) -> VerifyResult:
            made.append(key)
            return PASSED

        cache.get_or_make(key, make, stop=StopFlag())

    assert made == ["a", "b", "c", "a"]
