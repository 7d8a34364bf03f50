"""Runs that are cut off, suspended, cancelled or damaged: nothing is lost or left open."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from run_builders import FINISH, FIX, Yard, make_spec, shell

from runner.adapters.memory_store import MemoryStore
from runner.adapters.memory_tables import MemoryReader
from runner.application.cancel import cancel_batch, cancel_task
from runner.application.keep_leases import LeaseKeeper
from runner.application.stopping import StopFlag, StopReason
from runner.domain.items import SessionMeta, ToolStatus, UserMessage
from runner.domain.outcome import Outcome, RunState
from runner.errors import DamagedRolloutError
from sandbox import (
    EngineError,
    EngineUnavailableError,
    ImportedSource,
    RepositoryError,
    Source,
)
from sandbox.testing import Fault, FaultPoint, MemorySandboxHost, SimulatedCrash
from sandbox.testing_programs import FakeProgram, ProgramCall, ProgramOutcome

GOOD = ([shell(FIX)], [FINISH])

OPEN = "version: 1\nname: open\nsandbox: {network: {mode: open}}\n"


def kinds(yard: Yard) -> list[str]:
    return [one.kind.value for one in yard.items]


# --- what a session opens with


def test_the_goal_is_in_the_rollout_before_the_repository_is_looked_at() -> None:
    yard = Yard(*GOOD)
    missing = yard.task.spec.repo.model_copy(update={"location": "/nowhere"})
    yard.batch = yard.submit(yard.task.spec.model_copy(update={"repo": missing}))

    assert yard.work().outcome is Outcome.INFRASTRUCTURE_ERROR
    opened = [one.payload for one in yard.items][:2]
    assert isinstance(opened[0], SessionMeta)
    assert isinstance(opened[1], UserMessage)


class FlakyHost(MemorySandboxHost):
    """Cannot import a source the first time."""

    imports = 0

    def import_source(self, source: Source) -> ImportedSource:
        self.imports += 1
        if self.imports == 1:
            raise RepositoryError("git did not answer")
        return super().import_source(source)


def test_a_retry_after_a_failed_start_has_one_session_meta_in_the_first_place() -> None:
    yard = Yard(*GOOD, make_host=FlakyHost)
    batch = yard.submit(make_spec(*GOOD), retries={Outcome.INFRASTRUCTURE_ERROR: 1})
    yard.batch = batch

    yard.dispatcher(batch_id=batch.batch_id).run(threading.Event())

    assert yard.run.outcome is Outcome.VERIFIED
    assert kinds(yard).index("session_meta") == 0
    assert kinds(yard).count("session_meta") == kinds(yard).count("user_message") == 1


def test_a_run_that_ends_before_it_starts_leaves_an_empty_rollout() -> None:
    yard = Yard(*GOOD)
    with yard.store.write() as writer:
        writer.cancel_task(yard.task.task_id, yard.clock.now())

    assert yard.work().outcome is Outcome.CANCELLED
    assert yard.items == []


# --- retries


def test_a_retry_is_queued_in_the_transaction_that_ends_the_run() -> None:
    yard = Yard(*GOOD)
    yard.batch = yard.submit(make_spec(*GOOD), retries={Outcome.INFRASTRUCTURE_ERROR: 1})
    yard.host.plan(Fault(FaultPoint.OPEN, EngineError("refused")))

    yard.work()

    with yard.store.read() as view:
        runs = view.list_runs(yard.task.task_id)
    assert [one.state for one in runs] == [RunState.FAILED, RunState.QUEUED]


# --- cancelling what nobody works on


def suspend(yard: Yard) -> None:
    assert yard.work(yard.cancelling_desk(StopReason.SUSPENDED)).state is RunState.QUEUED


def test_cancelling_a_suspended_run_ends_it() -> None:
    yard = Yard(*GOOD)
    suspend(yard)

    assert cancel_task(yard.task.task_id, yard.services)

    assert yard.run.outcome is Outcome.CANCELLED


def test_cancelling_ends_a_run_whose_process_was_killed_and_answers_its_call() -> None:
    yard = Yard(*GOOD)
    yard.host.plan(Fault(FaultPoint.AFTER_RUN, SimulatedCrash(), skip=1))
    with pytest.raises(SimulatedCrash):
        yard.work()
    yard.store.claim_run(yard.run.run_id, holder="dead", now=yard.clock.now(), seconds=30)
    yard.services = replace(yard.services, is_holder_gone=lambda holder: holder == "dead")

    assert cancel_batch(yard.batch.batch_id, yard.services) == 1

    assert yard.run.outcome is Outcome.CANCELLED
    assert yard.host.open == []
    assert [one.call_id for one in yard.results] == yard.calls


def test_cancelling_leaves_a_run_to_the_live_worker_that_has_it() -> None:
    yard = Yard(*GOOD)
    suspend(yard)
    yard.store.claim_run(yard.run.run_id, holder="alive", now=yard.clock.now(), seconds=30)

    assert cancel_task(yard.task.task_id, yard.services)

    assert yard.run.outcome is None
    assert yard.task.cancelled_at is not None


def test_cancelling_a_run_that_needs_attention_says_that_the_effect_is_unknown(
    tmp_path: Path,
) -> None:
    policy = tmp_path / "open.yaml"
    policy.write_text(OPEN)
    yard = Yard([shell("curl x")], [FINISH], policy=str(policy))
    yard.host.plan(Fault(FaultPoint.AFTER_RUN, SimulatedCrash(), skip=1))
    with pytest.raises(SimulatedCrash):
        yard.work()
    assert yard.work().state is RunState.NEEDS_ATTENTION

    cancel_task(yard.task.task_id, yard.services)

    assert yard.run.outcome is Outcome.CANCELLED
    assert [one.status for one in yard.results] == [ToolStatus.UNKNOWN]


def test_a_call_with_reach_outside_that_is_cancelled_half_way_is_unknown(tmp_path: Path) -> None:
    policy = tmp_path / "open.yaml"
    policy.write_text(OPEN)
    yard = Yard([shell("halt")], [FINISH], policy=str(policy))
    stops: list[StopFlag] = []

    def halt(_program: ProgramCall) -> ProgramOutcome:
        stops[0].stop(StopReason.CANCELLED)
        return ProgramOutcome()

    yard.host.programs.append(FakeProgram(name="halt", run=halt))

    run = yard.work(yard.noting_desk(stops))

    assert run.outcome is Outcome.CANCELLED
    assert [one.status for one in yard.results] == [ToolStatus.UNKNOWN]


# --- suspending


def test_suspending_during_a_call_never_uses_up_its_attempts() -> None:
    yard = Yard([shell(f"halt; {FIX}")], [FINISH])
    stops: list[StopFlag] = []
    left = [5]

    def halt(_program: ProgramCall) -> ProgramOutcome:
        if left[0]:
            left[0] -= 1
            stops[-1].stop(StopReason.SUSPENDED)
        return ProgramOutcome()

    yard.host.programs.append(FakeProgram(name="halt", run=halt))
    for _ in range(5):
        assert yard.work(yard.noting_desk(stops)).state is RunState.QUEUED

    assert yard.work(yard.noting_desk(stops)).outcome is Outcome.VERIFIED
    assert yard.results[0].status is ToolStatus.SUCCEEDED


# --- one bad task harms no other


class DamagedStore(MemoryStore):
    """Cannot read one session any more."""

    damaged = ""

    @contextmanager
    def read(self) -> Iterator[MemoryReader]:
        with super().read() as view:
            yield _Damaged(view, self.damaged)  # type: ignore[misc]  # a view of a view


class _Damaged:
    def __init__(self, view: MemoryReader, session_id: str) -> None:
        self._view = view
        self._session_id = session_id

    def __getattr__(self, name: str) -> object:
        return getattr(self._view, name)

    def list_items(self, session_id: str, *, after: int = 0) -> object:
        if session_id == self._session_id:
            raise DamagedRolloutError(session_id, 3, "its hash is another")
        return self._view.list_items(session_id, after=after)  # type: ignore[arg-type]


def test_a_damaged_rollout_ends_its_own_task_alone() -> None:
    store = DamagedStore()
    yard = Yard(*GOOD, store=store)
    other = yard.submit(make_spec(*GOOD, name="good"))
    suspend(yard)
    store.damaged = yard.task.session_id

    yard.dispatcher(parallel=1).run(threading.Event())

    with yard.store.read() as view:
        runs = {run.batch_id: run for run in view.list_last_runs()}
    assert runs[yard.batch.batch_id].outcome is Outcome.INFRASTRUCTURE_ERROR
    assert "item 3" in runs[yard.batch.batch_id].reason
    assert runs[other.batch_id].outcome is Outcome.VERIFIED


@pytest.mark.parametrize("policy", ['{"version": 9}', "TOOLS"])
def test_a_policy_that_this_release_cannot_use_ends_its_own_task_alone(policy: str) -> None:
    yard = Yard(*GOOD)
    spec = yard.task.spec
    if policy == "TOOLS":
        policy = spec.policy.replace('"finish"', '"gone"')
        assert policy != spec.policy
    yard.batch = yard.submit(spec.model_copy(update={"policy": policy, "name": "bad"}))

    yard.dispatcher(parallel=1).run(threading.Event())

    assert yard.run.outcome is Outcome.INFRASTRUCTURE_ERROR
    assert sorted(yard.ended) == ["bad", "repair"]


def test_a_suspended_run_that_fits_no_more_on_this_host_ends_instead_of_waiting() -> None:
    yard = Yard(*GOOD)
    suspend(yard)

    yard.dispatcher(memory_mib=100).run(threading.Event())

    assert yard.run.outcome is Outcome.INFRASTRUCTURE_ERROR
    assert "100 MiB" in yard.run.reason


def test_a_started_run_past_the_deadline_goes_on() -> None:
    yard = Yard(*GOOD)
    suspend(yard)
    yard.clock.advance(10_000_000)

    yard.dispatcher().run(threading.Event())

    assert yard.run.outcome is Outcome.VERIFIED


class UntidyHost(MemorySandboxHost):
    """Cannot clean up."""

    def reap(self, find_live: Callable[[], Collection[tuple[str, int]]]) -> int:
        raise EngineUnavailableError("no answer")


def test_left_overs_that_cannot_be_removed_now_stop_no_batch() -> None:
    yard = Yard(*GOOD, make_host=UntidyHost)

    yard.dispatcher().run(threading.Event())

    assert yard.run.outcome is Outcome.VERIFIED


def test_the_keepers_own_stop_reaches_runs_claimed_later() -> None:
    yard = Yard(*GOOD)
    keeper = LeaseKeeper(yard.services)
    keeper.stop_all(StopReason.SUSPENDED)

    run = yard.work(replace(yard.desk(), on_lease=keeper.hold))

    assert run.state is RunState.QUEUED
