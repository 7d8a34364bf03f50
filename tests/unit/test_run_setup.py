"""`setup` on doubles: what tasks start from, how often it runs, and how it fails."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from run_builders import FINISH, FIX, Yard, make_spec, shell

from runner.application.stopping import StopFlag, StopReason
from runner.application.verify_rollout import verify_rollout
from runner.application.work_run import work_run
from runner.domain.ids import RunId
from runner.domain.items import Event, FragmentItem, Kind, SnapshotItem
from runner.domain.outcome import Outcome, RunState
from runner.domain.task import BudgetSpec, SetupSpec, VerifySpec
from sandbox import Ending, LeftOut
from sandbox.git.walker import _SPECIAL
from sandbox.snapshot import WITHOUT_CONTENT
from sandbox.testing import Fault, FaultPoint, SimulatedCrash
from sandbox.testing_programs import FakeProgram, ProgramCall, ProgramOutcome

INSTALL = SetupSpec(argv=("install", "dep"), network="open", timeout_seconds=60)
TURNS = ([shell(FIX)], [FINISH])


def _install(program: ProgramCall) -> ProgramOutcome:
    program.files.write("/workspace/dep.txt", b"dep\n")
    program.files.write("/home/agent/tool", b"tool\n")
    return ProgramOutcome(stdout=b"installed\n")


def make_yard(
    *turns: object, run: Callable[[ProgramCall], ProgramOutcome] = _install, **spec: object
) -> Yard:
    yard = Yard(*(turns or TURNS), **{"setup": INSTALL, **spec})
    yard.host.programs.append(FakeProgram(name="install", run=run))
    return yard


def installs(yard: Yard) -> int:
    return sum(one.argv[0] == "install" for one in yard.host.commands)


def events(yard: Yard) -> list[str]:
    return [one.payload.name for one in yard.items if isinstance(one.payload, Event)]


def test_the_agent_starts_with_what_its_setup_left() -> None:
    yard = make_yard([shell("cat dep.txt; cat /home/agent/tool")], *TURNS)

    run = yard.work()

    assert run.outcome is Outcome.VERIFIED
    assert "dep" in yard.results[0].text
    assert "tool" in yard.results[0].text
    assert "setup.ran" in events(yard)


def test_the_patch_holds_the_agents_work_alone() -> None:
    yard = make_yard()

    yard.work()

    with yard.store.read() as view:
        last = [one.payload for one in yard.items if isinstance(one.payload, SnapshotItem)][-1]
        patch = yard.host.make_patch(view.get_snapshot(last.snapshot_id))
    assert b"app.py" in patch
    assert b"dep.txt" not in patch


def test_both_verifications_start_from_what_setup_left() -> None:
    verify = VerifySpec(argv=("sh", "-c", "cat dep.txt && cat /home/agent/tool && pytest"))
    yard = make_yard([shell(f"rm dep.txt; {FIX}")], [FINISH], verify=verify)

    run = yard.work()

    assert run.outcome is Outcome.VERIFIED
    assert run.verify_before is not None
    assert run.verify_before.detail == "exit code 1"


def test_the_model_is_told_what_was_run() -> None:
    yard = make_yard()

    yard.work()

    told = [one.payload.text for one in yard.items if isinstance(one.payload, FragmentItem)]
    assert any("install dep" in text for text in told)
    assert verify_rollout(yard.task.task_id, yard.services).ok


def test_equal_tasks_share_one_setup() -> None:
    yard = make_yard()
    tasks = [make_spec(*TURNS, name=f"t{number}", setup=INSTALL) for number in range(3)]
    other = yard.submit(*tasks, name="other")

    yard.dispatcher(parallel=3).run(threading.Event())

    with yard.store.read() as view:
        runs = view.list_last_runs(other.batch_id)
    assert [run.outcome for run in runs] == [Outcome.VERIFIED] * 3
    assert installs(yard) == 1
    assert sorted(run.setup.reused for run in [*runs, yard.run] if run.setup) == [
        False,
        True,
        True,
        True,
    ]


def test_of_two_processes_with_one_setup_the_first_to_end_decides_for_both() -> None:
    others: list[RunId] = []

    def slow(program: ProgramCall) -> ProgramOutcome:
        if others:  # the other process begins and ends meanwhile
            work_run(others.pop(), yard.services, yard.desk())
            program.files.write("/workspace/dep.txt", b"late\n")
            return ProgramOutcome()
        return _install(program)

    yard = make_yard(run=slow)
    batch = yard.submit(make_spec(*TURNS, name="other", setup=INSTALL), name="other")
    with yard.store.read() as view:
        others.append(view.list_last_runs(batch.batch_id)[0].run_id)

    ours = yard.work()

    with yard.store.read() as view:
        (theirs,) = view.list_last_runs(batch.batch_id)
        starts = [
            next(one for one in view.list_items(run.session_id) if one.kind is Kind.SNAPSHOT)
            for run in (ours, theirs)
        ]
    assert [run.outcome for run in (ours, theirs)] == [Outcome.VERIFIED] * 2
    assert starts[0].payload == starts[1].payload
    assert installs(yard) == 2


@pytest.mark.parametrize(
    "change",
    [
        {"setup": INSTALL.model_copy(update={"env": {"A": "b"}})},
        {"setup": INSTALL.model_copy(update={"network": "none"})},
        {"setup": INSTALL.model_copy(update={"argv": ("install", "other")})},
        {"policy": "repair-watched"},
    ],
)
def test_another_setup_is_run_for_itself(change: dict[str, object]) -> None:
    yard = make_yard()
    yard.work()
    spec = make_spec(*TURNS, **{"name": "other", "setup": INSTALL, **change})
    yard.submit(spec, name="other")

    yard.dispatcher().run(threading.Event())

    assert installs(yard) == 2


def test_its_sandbox_has_the_network_that_it_asks_for_and_the_agents_has_not() -> None:
    seen: list[tuple[str, str, str]] = []

    def look(_program: ProgramCall) -> ProgramOutcome:
        spec = yard.host.open[-1].spec
        seen.append((spec.purpose, spec.network.mode.value, spec.line[:6]))
        return ProgramOutcome()

    yard = make_yard([shell("install x")], [FINISH], run=look)

    yard.work()

    assert seen == [("setup", "open", "setup-"), ("agent", "none", "")]


def test_its_time_is_no_time_of_the_agent() -> None:
    def slow(_program: ProgramCall) -> ProgramOutcome:
        yard.clock.advance(50)
        return ProgramOutcome()

    yard = make_yard(run=slow, budget=BudgetSpec(wall_seconds=10))

    run = yard.work()

    assert run.outcome is Outcome.VERIFIED
    assert run.usage.wall_milliseconds == 0
    assert run.setup is not None
    assert run.setup.milliseconds == 50_000


@pytest.mark.parametrize(
    ("outcome", "reason"),
    [
        (
            ProgramOutcome(exit_code=3, stdout=b"out\n", stderr=b"one\nERROR: no such dep\n"),
            "exit code 3; it said last: one / ERROR: no such dep",
        ),
        (ProgramOutcome(exit_code=1), "exit code 1; it said nothing"),
        (
            ProgramOutcome(seconds=61),
            "timed out after 60 s (setup.timeout_seconds); it said nothing",
        ),
        (
            ProgramOutcome(ending=Ending.OUT_OF_MEMORY),
            "out_of_memory: scripted: out_of_memory; it said nothing",
        ),
    ],
)
def test_a_setup_that_fails_is_no_failure_of_the_agent(
    outcome: ProgramOutcome, reason: str
) -> None:
    yard = make_yard(run=lambda _program: outcome)

    run = yard.work()

    assert run.outcome is Outcome.INFRASTRUCTURE_ERROR
    assert run.reason == f"the setup failed: {reason} (setup.log)"
    assert yard.bodies == []
    assert "setup.failed" in events(yard)


def test_the_log_of_a_failed_setup_is_kept() -> None:
    yard = make_yard(run=lambda _program: ProgramOutcome(exit_code=1, stderr=b"why\n"))

    setup = yard.work().setup

    assert setup is not None
    assert not setup.passed
    with yard.store.read() as view:
        log = view.get_evidence(setup.log)
    assert log == b'{"ending":"exited","exit_code":1,"run":1}\nwhy\n'


def test_a_failed_setup_is_tried_again_by_who_comes_later() -> None:
    left = [1]

    def flaky(program: ProgramCall) -> ProgramOutcome:
        if left:
            left.pop()
            return ProgramOutcome(exit_code=1)
        return _install(program)

    yard = make_yard(run=flaky)
    spec = make_spec(*TURNS, name="again", setup=INSTALL)
    batch = yard.submit(spec, name="again", retries={Outcome.INFRASTRUCTURE_ERROR: 1})
    assert yard.work().outcome is Outcome.INFRASTRUCTURE_ERROR

    yard.dispatcher().run(threading.Event())

    with yard.store.read() as view:
        (run,) = view.list_last_runs(batch.batch_id)
    assert run.outcome is Outcome.VERIFIED
    assert installs(yard) == 2


@pytest.mark.parametrize(
    ("script", "told"),
    [
        ("echo changed > app.py", "app.py modified"),
        ("rm tests/test_app.py", "tests/test_app.py deleted"),
        ("chmod 755 app.py", "app.py mode"),
    ],
)
def test_a_setup_that_changes_the_source_fails_with_the_paths(script: str, told: str) -> None:
    yard = Yard(*TURNS, setup=SetupSpec(argv=("sh", "-c", script)))

    run = yard.work()

    assert run.outcome is Outcome.INFRASTRUCTURE_ERROR
    assert told in run.reason
    assert "commit the change" in run.reason


def test_a_setup_that_was_cut_off_is_run_again() -> None:
    yard = make_yard()
    yard.host.plan(Fault(FaultPoint.AFTER_RUN, SimulatedCrash()))
    with pytest.raises(SimulatedCrash):
        yard.work()

    assert yard.work().outcome is Outcome.VERIFIED
    assert installs(yard) == 2


def test_a_setup_that_was_kept_before_the_crash_is_not_run_again() -> None:
    yard = make_yard()
    yard.host.plan(Fault(FaultPoint.OPEN, SimulatedCrash(), skip=1))
    with pytest.raises(SimulatedCrash):
        yard.work()

    assert yard.work().outcome is Outcome.VERIFIED
    assert installs(yard) == 1


@pytest.mark.parametrize(
    ("reason", "outcome", "state"),
    [
        (StopReason.CANCELLED, Outcome.CANCELLED, RunState.CANCELLED),
        (StopReason.SUSPENDED, None, RunState.QUEUED),
    ],
)
def test_a_run_that_is_stopped_during_its_setup_stops(
    reason: StopReason, outcome: Outcome | None, state: RunState
) -> None:
    stops: list[StopFlag] = []

    def halt(_program: ProgramCall) -> ProgramOutcome:
        stops[0].stop(reason)
        return ProgramOutcome()

    yard = make_yard(run=halt)

    work_run(yard.run.run_id, yard.services, yard.noting_desk(stops))

    assert (yard.run.outcome, yard.run.state) == (outcome, state)
    assert yard.host.open == []
    with yard.store.read() as view:
        assert view.list_runs(yard.task.task_id)[-1].setup is None


def test_what_is_left_out_for_its_kind_alone_is_no_loss() -> None:
    assert set(_SPECIAL.values()) == WITHOUT_CONTENT
    assert not LeftOut(path="tmp/x", reason="a socket").has_content
    assert LeftOut(path="home/big", reason="larger than 1 bytes (2)").has_content
