"""The loop of a run on doubles: what the model is told, what is stored, what the files become."""

from dataclasses import replace

import pytest
from run_builders import FINISH, FIX, Yard, call, shell

from policies import Change, ChangeKind, Changes, Decision, EntryKind, Verdict
from runner.application.call_records import make_refusal
from runner.application.prepare_run import make_source
from runner.application.stopping import StopReason
from runner.application.tools import ToolOutput
from runner.application.verify_rollout import verify_rollout
from runner.application.work_run import MAX_LOSSES
from runner.domain.items import DecisionItem, FragmentItem, SnapshotItem, StoredCall, ToolStatus
from runner.domain.outcome import Outcome, RunState
from runner.domain.records import ExecutionState
from runner.domain.task import BudgetSpec, VerifySpec
from sandbox import LeftOut, SandboxLostError, SnapshotTaken
from sandbox.testing import Fault, FaultPoint, SimulatedCrash


def test_a_repair_that_passes_is_verified() -> None:
    yard = Yard([shell(FIX)], [FINISH])

    run = yard.work()

    assert (run.state, run.outcome) == (RunState.COMPLETED, Outcome.VERIFIED)
    assert run.verify_before is not None
    assert not run.verify_before.passed
    assert run.verify_after is not None
    assert run.verify_after.passed


def test_a_repair_that_fails_the_check_is_not_verified() -> None:
    yard = Yard([shell("echo wrong > app.py")], [FINISH])

    assert yard.work().outcome is Outcome.NOT_VERIFIED


def test_the_check_is_run_in_a_fresh_sandbox_with_the_named_paths_restored() -> None:
    yard = Yard([shell("echo anything > tests/test_app.py")], [FINISH])

    assert yard.work().outcome is Outcome.NOT_VERIFIED
    assert yard.host.opened == 3


def test_a_new_file_that_verification_forbids_is_never_verified() -> None:
    verify = VerifySpec(argv=("pytest",), forbid_new=("pytest.py",))
    yard = Yard([shell(FIX + "; echo cheat > pytest.py")], [FINISH], verify=verify)

    run = yard.work()

    assert run.outcome is Outcome.NOT_VERIFIED
    assert "pytest.py" in run.reason


def test_protected_changes_are_rolled_back_and_the_model_is_told_why() -> None:
    yard = Yard(
        [shell("echo x > tests/test_app.py; echo fixed > app.py")],
        [shell("cat app.py")],
        [FINISH],
        protect=["tests/**"],
    )

    run = yard.work()

    refused, looked, _ = yard.results
    assert (refused.status, refused.reason) == (ToolStatus.FAILED, "changes_refused")
    assert "tests/test_app.py" in refused.text
    assert "broken" in looked.text
    assert run.outcome is Outcome.PREVENTED


def test_a_refused_change_leaves_no_snapshot_in_the_rollout() -> None:
    yard = Yard([shell("echo x > tests/test_app.py")], [FINISH], protect=["tests/**"])

    yard.work()

    snapshots = [one for one in yard.items if isinstance(one.payload, SnapshotItem)]
    decisions = [one.payload for one in yard.items if isinstance(one.payload, DecisionItem)]
    assert len(snapshots) == 1
    assert [one.verdict for one in decisions if one.subject == "changes"] == ["deny"]


def test_a_good_way_after_a_refused_one_is_verified() -> None:
    yard = Yard(
        [shell("echo x > tests/test_app.py")], [shell(FIX)], [FINISH], protect=["tests/**"]
    )

    assert yard.work().outcome is Outcome.VERIFIED


def test_a_denied_call_is_never_run(tmp_path) -> None:
    policy = tmp_path / "no-shell-in-deploy.yaml"
    policy.write_text(
        "version: 1\nname: careful\nsandbox: {network: {mode: none}}\ncommands:\n"
        "  - {id: hands-off, match: {tool: write_file, paths: ['deploy/**']}, then: deny}\n"
    )
    yard = Yard([call("write_file", path="deploy/x", content="y")], [FINISH], policy=str(policy))

    run = yard.work()

    assert yard.results[0].status is ToolStatus.DENIED
    assert "hands-off" in yard.results[0].text
    assert run.outcome is Outcome.PREVENTED
    ran = [one.argv for one in yard.host.commands]
    assert ran == [("pytest",), ("pytest",)]


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (call("no_such_tool"), "unknown_tool"),
        ({"tool": "shell", "arguments_text": '{"command": "l'}, "bad_arguments"),
        (call("shell", wrong="x"), "bad_arguments"),
        (shell("x" * 200_000), "bad_arguments"),
    ],
)
def test_a_call_that_cannot_be_understood_is_answered_and_not_run(bad, reason) -> None:
    yard = Yard([bad], [shell(FIX)], [FINISH])

    assert yard.work().outcome is Outcome.VERIFIED
    assert (yard.results[0].status, yard.results[0].reason) == (ToolStatus.FAILED, reason)


def test_three_calls_in_a_row_that_cannot_be_understood_end_the_run() -> None:
    yard = Yard([call("nope")], [call("nope")], [call("nope")], [shell(FIX)], [FINISH])

    assert yard.work().outcome is Outcome.AGENT_FAILED


def test_every_call_of_a_parallel_answer_gets_one_result_in_order() -> None:
    yard = Yard([shell("echo 1"), call("nope"), shell(FIX)], [FINISH])

    yard.work()

    assert [one.call_id for one in yard.results] == yard.calls


def test_a_used_up_budget_ends_the_run_and_the_check_is_still_shown() -> None:
    yard = Yard([shell(FIX)], [shell("echo more")], [FINISH], budget=BudgetSpec(model_calls=1))

    run = yard.work()

    assert run.outcome is Outcome.BUDGET_EXHAUSTED
    assert "model_calls" in run.reason
    assert run.verify_after is not None
    assert run.verify_after.passed


def test_used_up_tool_time_stops_calls_that_were_asked_for_and_answers_them() -> None:
    yard = Yard(
        [shell("sleep 8"), shell("sleep 8"), shell("sleep 8")],
        [FINISH],
        budget=BudgetSpec(tool_seconds=10),
    )

    run = yard.work()

    assert run.outcome is Outcome.BUDGET_EXHAUSTED
    assert [one.reason for one in yard.results] == ["", "timed_out", "run_ended"]
    assert "tool_seconds" in yard.results[1].text


def test_a_lost_sandbox_is_rebuilt_and_the_same_execution_started_again() -> None:
    yard = Yard([shell("echo 1 > a"), shell(FIX)], [FINISH])
    yard.host.plan(Fault(FaultPoint.AFTER_RUN, SandboxLostError("gone"), skip=2))

    run = yard.work()

    assert run.outcome is Outcome.VERIFIED
    with yard.store.read() as view:
        attempts = [one.attempt for one in view.list_executions(yard.task.session_id)]
    assert attempts == [1, 2, 1]


def test_a_sandbox_lost_again_and_again_ends_the_run_with_every_call_answered() -> None:
    yard = Yard([shell("boom")], [FINISH])
    for _ in range(3):
        yard.host.plan(Fault(FaultPoint.AFTER_RUN, SandboxLostError("gone"), skip=1))

    run = yard.work()

    assert run.outcome is Outcome.SANDBOX_LOST
    assert [one.call_id for one in yard.results] == yard.calls


def test_a_missing_repository_is_an_infrastructure_error_with_its_name() -> None:
    yard = Yard([FINISH])
    broken = yard.task.spec.repo.model_copy(update={"location": "/nowhere"})
    batch = yard.submit(yard.task.spec.model_copy(update={"repo": broken}))
    yard.batch = batch

    run = yard.work()

    assert run.outcome is Outcome.INFRASTRUCTURE_ERROR
    assert "/nowhere" in run.reason


def test_a_cancelled_run_records_its_end_and_touches_nothing() -> None:
    yard = Yard([shell(FIX)], [FINISH])

    run = yard.work(yard.cancelling_desk(StopReason.CANCELLED))

    assert run.outcome is Outcome.CANCELLED
    assert "echo" not in str([one.argv for one in yard.host.commands])


def test_a_suspended_run_is_queued_again_and_goes_on() -> None:
    yard = Yard([shell(FIX)], [FINISH])

    suspended = yard.work(yard.cancelling_desk(StopReason.SUSPENDED))

    assert suspended.state is RunState.QUEUED
    assert yard.work().outcome is Outcome.VERIFIED


def test_suspending_is_never_counted_as_losing_a_worker() -> None:
    yard = Yard([shell(FIX)], [FINISH])

    for _ in range(MAX_LOSSES + 1):
        yard.work(yard.cancelling_desk(StopReason.SUSPENDED))

    assert yard.work().outcome is Outcome.VERIFIED


def test_a_run_that_keeps_losing_its_worker_is_poisoned() -> None:
    yard = Yard([shell(FIX)], [FINISH])
    for _ in range(MAX_LOSSES):
        yard.host.plan(Fault(FaultPoint.OPEN, SimulatedCrash()))
        with pytest.raises(SimulatedCrash):
            yard.work()

    assert yard.work().outcome is Outcome.POISONED


def test_a_stale_worker_changes_nothing() -> None:
    yard = Yard([shell(FIX)], [FINISH])
    desk = yard.desk()

    def steal(task, lease, stop):
        yard.store.break_lease(lease)
        yard.store.claim_run(lease.run_id, holder="other", now=yard.clock.now(), seconds=30)
        return lambda: None

    before = yard.items
    yard.work(replace(desk, on_lease=steal))

    assert yard.items == before
    assert yard.run.state is RunState.QUEUED


CRASH_POINTS = [
    (FaultPoint.OPEN, 0),
    (FaultPoint.OPEN, 1),
    (FaultPoint.BEFORE_RUN, 1),
    (FaultPoint.AFTER_RUN, 1),
    (FaultPoint.SNAPSHOT, 0),
    (FaultPoint.BEFORE_RUN, 2),
    (FaultPoint.AFTER_RUN, 2),
    (FaultPoint.SNAPSHOT, 1),
    (FaultPoint.RESTORE, 0),
    (FaultPoint.OPEN, 2),
    (FaultPoint.BEFORE_RUN, 4),
    (FaultPoint.AFTER_RUN, 4),
]


@pytest.mark.parametrize(("point", "skip"), CRASH_POINTS)
def test_after_a_crash_anywhere_the_files_and_requests_are_those_of_an_even_run(
    point, skip
) -> None:
    turns = (
        [shell("echo 1 >> log"), shell("echo x > tests/test_app.py")],
        [shell(FIX)],
        [FINISH],
    )
    even, yard = Yard(*turns, protect=["tests/**"]), Yard(*turns, protect=["tests/**"])
    even.work()
    yard.host.plan(Fault(point, SimulatedCrash(), skip=skip))

    with pytest.raises(SimulatedCrash):
        yard.work()
    run = yard.work()

    assert run.outcome is Outcome.VERIFIED
    assert [one.text for one in yard.results] == [one.text for one in even.results]
    assert _files(yard) == _files(even)
    assert verify_rollout(yard.task.task_id, yard.services).ok


def test_a_call_cut_off_three_times_is_given_up_and_told() -> None:
    yard = Yard([shell("echo 1 >> log")], [shell(FIX)], [FINISH])
    for checks_before in (1, 0, 0):
        yard.host.plan(Fault(FaultPoint.AFTER_RUN, SimulatedCrash(), skip=checks_before))
        with pytest.raises(SimulatedCrash):
            yard.work()

    run = yard.work()

    assert run.outcome is Outcome.VERIFIED
    assert yard.results[0].reason == "sandbox_lost"
    assert "was cut off 3 times (its sandbox or its runner was lost)" in yard.results[0].text


def test_a_cut_off_call_that_may_have_reached_outside_waits_for_a_person(tmp_path) -> None:
    policy = tmp_path / "open.yaml"
    policy.write_text("version: 1\nname: open\nsandbox: {network: {mode: open}}\n")
    yard = Yard([shell("curl x")], [FINISH], policy=str(policy))
    yard.host.plan(Fault(FaultPoint.AFTER_RUN, SimulatedCrash(), skip=1))
    with pytest.raises(SimulatedCrash):
        yard.work()

    run = yard.work()

    assert run.state is RunState.NEEDS_ATTENTION
    with yard.store.read() as view:
        executions = view.list_executions(yard.task.session_id)
    assert [one.state for one in executions] == [ExecutionState.UNKNOWN]


def test_every_request_is_rebuilt_and_equals_what_the_model_received() -> None:
    yard = Yard([shell("echo 1")], [shell(FIX)], [FINISH])

    yard.work()

    proof = verify_rollout(yard.task.task_id, yard.services)
    assert proof.ok
    assert proof.anchored
    assert (proof.requests_sent, proof.requests_rebuilt) == (3, 3)
    assert yard.catalog.received == yard.bodies


def test_surroundings_that_do_not_change_are_told_once() -> None:
    yard = Yard([shell("echo 1")], [shell(FIX)], [FINISH])

    yard.work()

    fragments = [one for one in yard.items if isinstance(one.payload, FragmentItem)]
    assert [one.payload.fragment for one in fragments] == [
        "environment.container",
        "permissions.policy",
    ]


def _files(yard: Yard) -> dict[str, bytes]:
    with yard.store.read() as view:
        last = [one.payload for one in yard.items if isinstance(one.payload, SnapshotItem)][-1]
        snapshot = view.get_snapshot(last.snapshot_id)
    return {name: entry.data for name, entry in yard.host.store.get(snapshot).items()}


def test_a_refusal_says_what_a_roll_back_cannot_bring_back() -> None:
    yard = Yard([shell("echo x > tests/test_app.py")], [FINISH], protect=["tests/**"])
    yard.work()
    decision = Decision(verdict=Verdict.DENY, rule="r", reasons=("no",))
    held = yard.host.start_snapshot(
        yard.host.import_source(make_source(yard.task.spec.repo)), task_id="t"
    )
    pipe = Change(path=b"pipe", kind=ChangeKind.DELETED, entry=EntryKind.OTHER, ignored=True)
    before = replace(held.coverage, left_out=(LeftOut(path="workspace/pipe", reason="pipe"),))
    call = StoredCall(call_id="c1", provider_call_id="", name="shell", arguments="{}")

    told = make_refusal(
        call,
        decision,
        taken=SnapshotTaken(snapshot=held, changes=Changes.of([pipe])),
        before=before,
        output=ToolOutput(ok=True),
        outside=False,
    )

    assert "What no snapshot holds (1 paths) was left as it is" in told.text
    assert "not brought back: pipe" in told.text
