"""The dispatcher on doubles: order, room, retries, deadlines, and tasks that harm nobody else."""

import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from run_builders import FINISH, FIX, Yard, make_spec, shell

from runner.adapters.memory_store import MemoryStore
from runner.adapters.memory_tables import MemoryReader, MemoryWriter
from runner.application.cancel import cancel_batch, cancel_task
from runner.domain.ids import TaskId
from runner.domain.outcome import Outcome, RunState
from runner.domain.records import Lease, Run, Task
from runner.domain.task import BatchBudget
from runner.errors import StoreBusyError
from sandbox import EngineError
from sandbox.testing import Fault, FaultPoint
from sandbox.testing_programs import FakeProgram, ProgramCall, ProgramOutcome

GOOD = ([shell(FIX)], [FINISH])


def outcomes(yard: Yard) -> dict[str, Outcome | None]:
    with yard.store.read() as view:
        names = {task.task_id: task.spec.name for task in view.list_tasks()}
        return {names[run.task_id]: run.outcome for run in view.list_last_runs()}


def test_every_task_of_a_batch_is_worked_on_and_told_once() -> None:
    yard = Yard(*GOOD, name="first")
    yard.submit(make_spec(*GOOD, name="a"), make_spec(*GOOD, name="b"))

    yard.dispatcher(parallel=2).run(threading.Event())

    assert set(outcomes(yard).values()) == {Outcome.VERIFIED}
    assert sorted(yard.ended) == ["a", "b", "first"]


def test_only_the_chosen_batch_is_worked_on() -> None:
    yard = Yard(*GOOD, name="other")
    mine = yard.submit(make_spec(*GOOD, name="mine"))

    yard.dispatcher(batch_id=mine.batch_id).run(threading.Event())

    assert outcomes(yard) == {"other": None, "mine": Outcome.VERIFIED}


def test_a_bad_task_harms_no_other() -> None:
    yard = Yard(*GOOD, name="good")
    missing = yard.task.spec.repo.model_copy(update={"location": "/nowhere"})
    yard.submit(make_spec(*GOOD, name="bad", repo=missing))

    yard.dispatcher().run(threading.Event())

    assert outcomes(yard) == {"good": Outcome.VERIFIED, "bad": Outcome.INFRASTRUCTURE_ERROR}


def test_an_infrastructure_error_is_retried_as_often_as_the_batch_says() -> None:
    yard = Yard(*GOOD, name="other")
    batch = yard.submit(make_spec(*GOOD, name="flaky"), retries={Outcome.INFRASTRUCTURE_ERROR: 2})
    for _ in range(2):
        yard.host.plan(Fault(FaultPoint.OPEN, EngineError("no answer")))

    yard.dispatcher(batch_id=batch.batch_id).run(threading.Event())

    assert outcomes(yard)["flaky"] is Outcome.VERIFIED
    assert yard.ended == ["flaky"]


def test_retries_end_and_the_failure_stands() -> None:
    yard = Yard(*GOOD, name="other")
    batch = yard.submit(make_spec(*GOOD, name="broken"), retries={Outcome.INFRASTRUCTURE_ERROR: 1})
    for _ in range(5):
        yard.host.plan(Fault(FaultPoint.OPEN, EngineError("no answer")))

    yard.dispatcher(batch_id=batch.batch_id).run(threading.Event())

    assert outcomes(yard)["broken"] is Outcome.INFRASTRUCTURE_ERROR
    assert yard.ended == ["broken"]


def test_a_task_past_the_deadline_expires_without_a_sandbox() -> None:
    yard = Yard(*GOOD)
    late = yard.submit(make_spec(*GOOD, name="late"), budget=BatchBudget(deadline_minutes=1))
    yard.clock.advance(61)

    yard.dispatcher(batch_id=late.batch_id).run(threading.Event())

    assert outcomes(yard)["late"] is Outcome.EXPIRED
    assert yard.host.opened == 0


def test_a_task_too_big_for_the_host_says_so_and_blocks_nothing() -> None:
    yard = Yard(*GOOD)

    yard.dispatcher(memory_mib=100).run(threading.Event())

    assert yard.run.outcome is Outcome.INFRASTRUCTURE_ERROR
    assert "100 MiB" in yard.run.reason


def test_memory_is_never_promised_twice() -> None:
    turns = ([shell(f"peek; {FIX}")], [FINISH])
    yard = Yard(*turns, name="first")
    yard.submit(*(make_spec(*turns, name=f"t{number}") for number in range(4)))
    seen: list[int] = []

    def peek(_program: ProgramCall) -> ProgramOutcome:
        seen.append(len(yard.host.open))
        return ProgramOutcome()

    yard.host.programs.append(FakeProgram(name="peek", run=peek))

    yard.dispatcher(memory_mib=2048, parallel=8).run(threading.Event())

    assert set(outcomes(yard).values()) == {Outcome.VERIFIED}
    assert seen == [1] * 5


class OnceBusyStore(MemoryStore):
    """Others keep it locked, once, when a run is to be written."""

    busy = True

    @contextmanager
    def write(self, lease: Lease | None = None) -> Iterator[MemoryWriter]:
        if self.busy and lease is not None:
            self.busy = False
            raise StoreBusyError("locked")
        with super().write(lease) as writer:
            yield writer


def test_a_store_that_is_locked_for_a_while_ends_no_batch() -> None:
    yard = Yard(*GOOD, store=OnceBusyStore())

    yard.dispatcher().run(threading.Event())

    assert yard.run.outcome is Outcome.VERIFIED


class CountingStore(MemoryStore):
    """Counts the dispatcher's looks, and how often each task was read until the third."""

    def __init__(self) -> None:
        super().__init__()
        self.looks = 0
        self.reads: Counter[TaskId] = Counter()
        self.looked_often = threading.Event()

    @contextmanager
    def read(self) -> Iterator[MemoryReader]:
        with super().read() as view:
            yield CountingReader(view, self)

    def count_look(self) -> None:
        self.looks += 1
        if self.looks > 3:
            self.looked_often.set()

    def count_read(self, task_id: TaskId) -> None:
        if not self.looked_often.is_set():
            self.reads[task_id] += 1


class CountingReader(MemoryReader):
    def __init__(self, view: MemoryReader, store: CountingStore) -> None:
        super().__init__(view._tables)
        self._store = store

    def list_runs_in(self, states: Sequence[RunState]) -> Sequence[Run]:
        self._store.count_look()
        return super().list_runs_in(states)

    def get_task(self, task_id: TaskId) -> Task:
        self._store.count_read(task_id)
        return super().get_task(task_id)


def test_a_run_that_waits_for_room_is_not_read_at_every_look() -> None:
    turns = ([shell(f"hold; {FIX}")], [FINISH])
    store = CountingStore()
    yard = Yard(*turns, name="first", store=store)
    others = yard.submit(make_spec(*GOOD, name="a"), make_spec(*GOOD, name="b"))

    def hold(_program: ProgramCall) -> ProgramOutcome:
        while not store.looked_often.wait(timeout=0.05):
            yard.clock.advance(1)
        return ProgramOutcome()

    yard.host.programs.append(FakeProgram(name="hold", run=hold))

    yard.dispatcher(memory_mib=2048, parallel=8).run(threading.Event())

    with yard.store.read() as view:
        waiting = [task.task_id for task in view.list_tasks(others.batch_id)]
    assert store.looks > 3
    assert [store.reads[one] for one in waiting] == [1, 1]


def test_a_cancelled_task_never_starts() -> None:
    yard = Yard(*GOOD)

    assert cancel_task(yard.task.task_id, yard.services)
    yard.dispatcher().run(threading.Event())

    assert yard.run.outcome is Outcome.CANCELLED
    assert yard.host.opened == 0


def test_cancelling_a_batch_leaves_what_has_ended_alone() -> None:
    yard = Yard(*GOOD)
    yard.dispatcher().run(threading.Event())

    assert cancel_batch(yard.batch.batch_id, yard.services) == 0
    assert yard.run.outcome is Outcome.VERIFIED


def test_a_dispatcher_told_to_stop_before_it_starts_leaves_everything_queued() -> None:
    yard = Yard(*GOOD)
    stop = threading.Event()
    stop.set()

    yard.dispatcher().run(stop)

    assert yard.run.state is RunState.QUEUED
