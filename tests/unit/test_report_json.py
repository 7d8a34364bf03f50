from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from policies import Change, ChangeKind, Changes, EntryKind, FlaggedPath, canonical_json
from runner.application.report import BatchReport, TaskFiles, TaskReport, measure_clocks
from runner.domain.budget import Usage
from runner.domain.ids import BatchId, EvidenceId, RunId, SessionId, TaskId
from runner.domain.outcome import Outcome, RunState
from runner.domain.records import Batch, Run, SetupResult, Task, VerifyResult
from runner.domain.task import AgentKind, AgentSpec, BatchSpec, RepositorySpec, TaskSpec
from sandbox import CommitId, RepositoryId, Snapshot, SnapshotId

START = datetime(2026, 11, 30, 12, tzinfo=UTC)

SNAPSHOT = Snapshot(
    snapshot_id=SnapshotId("sha256:s"),
    content_id="sha256:c",
    repository_id=RepositoryId("r"),
    base_commit=CommitId("0" * 40),
    commit=CommitId("1" * 40),
    source_tree="t",
    full_tree="f",
)


def make_task(name: str = "one", *, expect: tuple[Outcome, ...] = (Outcome.VERIFIED,)) -> Task:
    spec = TaskSpec(
        name=name,
        goal="Make it pass.",
        repo=RepositorySpec(kind="path", location="/code"),
        image="python",
        policy="{}",
        agent=AgentSpec(kind=AgentKind.SCRIPTED),
        expect=expect,
    )
    return Task(
        task_id=TaskId(f"t{name}"),
        batch_id=BatchId("b1"),
        session_id=SessionId(f"s{name}"),
        position=0,
        spec=spec,
        created_at=START,
    )


def make_run(outcome: Outcome | None = Outcome.VERIFIED, *, number: int = 1) -> Run:
    return Run(
        run_id=RunId(f"r{number}"),
        batch_id=BatchId("b1"),
        task_id=TaskId("tone"),
        session_id=SessionId("sone"),
        number=number,
        state=RunState.RUNNING if outcome is None else outcome.state,
        outcome=outcome,
        created_at=START,
        started_at=START + timedelta(seconds=2),
        usage=Usage(wall_milliseconds=3000),
        verify_milliseconds=500,
    )


def make_report(task: Task | None = None, run: Run | None = None) -> TaskReport:
    runs = (run or make_run(),)
    clocks = measure_clocks(runs, now=START)
    return TaskReport(task=task or make_task(), runs=runs, clocks=clocks)


def make_batch(*tasks: TaskReport) -> BatchReport:
    spec = BatchSpec(name="repairs", file="/b.yaml", tasks=tuple(one.task.spec for one in tasks))
    batch = Batch(batch_id=BatchId("b1"), spec=spec, results_dir="/r", created_at=START)
    return BatchReport(batch=batch, tasks=tasks)


def test_the_clocks_of_all_runs_are_added_up_apart() -> None:
    clocks = measure_clocks([make_run(), make_run(number=2)], now=START)

    assert clocks.to_json() == {
        "waiting_milliseconds": 4000,
        "running_milliseconds": 6000,
        "verifying_milliseconds": 1000,
        "setting_up_milliseconds": 0,
    }


def test_a_tasks_setup_has_a_clock_of_its_own_and_is_shown_from_the_run_that_had_it() -> None:
    setup = SetupResult(
        passed=False, exit_code=1, detail="exit code 1", log=EvidenceId("e"), milliseconds=40
    )
    runs = (replace(make_run(), setup=setup), make_run(number=2))

    report = TaskReport(task=make_task(), runs=runs, clocks=measure_clocks(runs, now=START))

    assert report.clocks.setting_up_milliseconds == 40
    assert report.clocks.running_milliseconds == 6000
    assert report.to_json()["setup"] == {
        "passed": False,
        "exit_code": 1,
        "reused": False,
        "detail": "exit code 1",
    }


def test_a_task_without_setup_says_so() -> None:
    assert make_report().to_json()["setup"] is None


def test_a_run_that_has_not_started_waits_until_now() -> None:
    queued = replace(make_run(None), started_at=None, state=RunState.QUEUED)

    clocks = measure_clocks([queued], now=START + timedelta(seconds=7))

    assert clocks.waiting_milliseconds == 7000


def test_a_task_has_the_stable_keys_and_no_floats() -> None:
    value = make_report().to_json()

    assert canonical_json(value)
    assert {
        "schema", "task_id", "session_id", "batch_id", "state", "outcome", "parent_task_id",
        "fork_message_id", "base_snapshot_id", "snapshot_id", "budget", "verify",
    } <= set(value)  # fmt: skip
    assert "coverage" not in value


def test_changes_count_what_the_patch_holds_and_ignored_paths_apart() -> None:
    changes = Changes.of(
        [
            Change(path=b"a", kind=ChangeKind.ADDED, entry=EntryKind.FILE),
            Change(path=b"m", kind=ChangeKind.MODE, entry=EntryKind.FILE),
            Change(path=b"x.pyc", kind=ChangeKind.ADDED, entry=EntryKind.FILE, ignored=True),
        ]
    )
    report = replace(make_report(), files=TaskFiles(snapshot=SNAPSHOT, changes=changes))

    assert report.to_json()["changes"] == {"added": 1, "modified": 1, "deleted": 0, "ignored": 1}
    assert "coverage" in report.to_json()


def test_a_task_names_the_commit_and_the_tree_that_its_patch_lies_between() -> None:
    report = replace(make_report(), files=TaskFiles(snapshot=SNAPSHOT, changes=Changes()))

    value = report.to_json()

    assert value["base_commit"] == SNAPSHOT.base_commit
    assert value["source_tree"] == SNAPSHOT.source_tree


def test_flagged_paths_of_the_patch_are_told_with_tool_and_reason() -> None:
    flagged = (FlaggedPath(b".envrc", "shell", "entering the folder runs it"),)
    files = TaskFiles(snapshot=SNAPSHOT, changes=Changes(), flagged=flagged)

    assert replace(make_report(), files=files).to_json()["flagged"] == [
        {"path": ".envrc", "tool": "shell", "reason": "entering the folder runs it"}
    ]


def test_a_verification_shows_exit_code_runs_and_flakiness() -> None:
    result = VerifyResult(passed=False, exit_code=1, runs=2, flaky=True, detail="exit code 1")
    report = make_report(run=replace(make_run(Outcome.NOT_VERIFIED), verify_after=result))

    assert report.to_json()["verify"] == {
        "before": None,
        "after": {
            "passed": False,
            "exit_code": 1,
            "runs": 2,
            "flaky": True,
            "detail": "exit code 1",
        },
    }


@pytest.mark.parametrize(
    ("expect", "outcome", "expected"),
    [
        (Outcome.VERIFIED, Outcome.VERIFIED, True),
        (Outcome.PREVENTED, Outcome.PREVENTED, True),
        (Outcome.VERIFIED, Outcome.NOT_VERIFIED, False),
        (Outcome.VERIFIED, None, None),
    ],
)
def test_expect_decides_what_is_as_wanted(
    expect: Outcome, outcome: Outcome | None, *, expected: bool | None
) -> None:
    report = make_report(make_task(expect=(expect,)), make_run(outcome))

    assert report.expected is expected


def test_a_batch_names_the_outcome_of_each_task_of_the_file() -> None:
    batch = make_batch(make_report(), make_report(make_task("two"), make_run(None)))

    assert batch.to_json()["outcomes"] == {"one": "verified", "two": None}
    assert not batch.ended


def test_a_batch_counts_by_state_and_by_outcome() -> None:
    batch = make_batch(make_report(), make_report(make_task("two"), make_run(None)))

    assert batch.to_status_json()["counts"] == {
        "state": {"completed": 1, "running": 1},
        "outcome": {"verified": 1},
    }


def test_a_batch_is_as_wanted_only_when_every_task_is() -> None:
    good, bad = make_report(), make_report(make_task("two"), make_run(Outcome.KILLED))

    assert make_batch(good).as_wanted
    assert not make_batch(good, bad).as_wanted
