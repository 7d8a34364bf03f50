"""An engine that goes away under a run: waited for and rebuilt, or said to be lost."""

from __future__ import annotations

from dataclasses import replace

import pytest
from run_builders import FINISH, FIX, Yard, shell

from runner.application.await_engine import EnginePatience
from runner.application.stopping import StopFlag, StopReason
from runner.application.verify_rollout import verify_rollout
from runner.domain.items import Event, ToolStatus
from runner.domain.outcome import Outcome, RunState
from runner.domain.records import Run
from sandbox import EngineUnavailableError, SandboxLostError
from sandbox.testing import Fault, FaultPoint, MemorySandboxHost

GONE = EngineUnavailableError("the engine does not answer")
TURNS = ([shell("echo 1 >> log"), shell(FIX)], [FINISH])


class AwayHost(MemorySandboxHost):
    """An engine that stays away for a time once it has failed."""

    away_seconds = 0.0
    asked = 0
    yard: Yard

    def check_engine(self) -> None:
        self.asked += 1
        if self.away_seconds > 0:
            self.away_seconds -= 20
            self.yard.clock.advance(20)
            raise EngineUnavailableError("no answer")


def make_yard(*turns: object, away_seconds: float = 0.0) -> Yard:
    yard = Yard(*turns, make_host=AwayHost)  # type: ignore[arg-type]
    yard.host.yard, yard.host.away_seconds = yard, away_seconds
    return yard


def work(yard: Yard) -> Run:
    patience = EnginePatience(first_pause_seconds=0, longest_pause_seconds=0)
    return yard.work(replace(yard.desk(), patience=patience))


@pytest.mark.parametrize("point", [FaultPoint.BEFORE_RUN, FaultPoint.AFTER_RUN])
@pytest.mark.parametrize("error", [GONE, SandboxLostError("the container is gone")])
def test_a_run_goes_on_from_its_last_snapshot_when_the_engine_is_back(point, error) -> None:
    even, yard = make_yard(*TURNS), make_yard(*TURNS, away_seconds=40)
    work(even)
    yard.host.plan(Fault(point, error, skip=2))

    run = work(yard)

    assert run.outcome is Outcome.VERIFIED
    assert [one.call_id for one in yard.results] == yard.calls
    assert [one.text for one in yard.results] == [one.text for one in even.results]
    assert yard.host.open == []
    events = [one.payload for one in yard.items if isinstance(one.payload, Event)]
    assert [one.detail for one in events if one.name == "sandbox.lost"] == [str(error)]
    assert verify_rollout(yard.task.task_id, yard.services).ok


def test_waiting_for_the_engine_is_no_time_of_the_agent() -> None:
    yard = make_yard(*TURNS, away_seconds=40)
    yard.host.plan(Fault(FaultPoint.AFTER_RUN, GONE, skip=1))

    run = work(yard)

    assert run.outcome is Outcome.VERIFIED
    assert run.usage.wall_milliseconds == 0
    assert "waiting for the engine" in yard.activities


def test_an_engine_that_stays_away_is_an_infrastructure_error_with_every_call_answered() -> None:
    yard = make_yard(*TURNS, away_seconds=1000)
    yard.host.plan(Fault(FaultPoint.AFTER_RUN, GONE, skip=2))

    run = work(yard)

    assert run.outcome is Outcome.INFRASTRUCTURE_ERROR
    assert run.reason == "no answer (waited 60 s)"
    assert [one.call_id for one in yard.results] == yard.calls
    assert [one.status for one in yard.results] == [ToolStatus.SUCCEEDED, ToolStatus.FAILED]
    assert yard.host.open == []


@pytest.mark.parametrize("skip", [0, 1, 2], ids=["check before", "agent", "check after"])
def test_an_engine_that_is_away_when_a_sandbox_is_due_is_waited_for(skip) -> None:
    yard = make_yard(*TURNS, away_seconds=40)
    yard.host.plan(Fault(FaultPoint.OPEN, GONE, skip=skip))

    assert work(yard).outcome is Outcome.VERIFIED
    assert yard.host.asked == 3


def test_an_engine_that_comes_and_goes_ends_the_run_at_last() -> None:
    yard = make_yard(*TURNS)
    for passed in (1, 0, 0):
        yard.host.plan(Fault(FaultPoint.AFTER_RUN, GONE, skip=passed))

    run = work(yard)

    assert run.outcome is Outcome.INFRASTRUCTURE_ERROR
    assert [one.call_id for one in yard.results] == yard.calls


def test_a_run_that_waits_for_the_engine_can_be_stopped() -> None:
    yard = make_yard(*TURNS, away_seconds=1e9)
    yard.host.plan(Fault(FaultPoint.OPEN, GONE, skip=1))
    stops: list[StopFlag] = []
    desk = replace(
        yard.noting_desk(stops),
        on_activity=lambda _task, words: (
            stops[-1].stop(StopReason.SUSPENDED) if words == "waiting for the engine" else None
        ),
    )

    assert yard.work(desk).state is RunState.QUEUED
    yard.host.away_seconds = 0
    assert work(yard).outcome is Outcome.VERIFIED
