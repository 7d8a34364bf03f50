from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from policies import Changes, FlaggedPath
from runner.adapters.results import FolderResultsWriter
from runner.application.ports.results import TaskResults
from runner.application.report import BatchReport, TaskFiles, TaskReport, measure_clocks
from runner.application.timeline import ToolStep
from runner.domain.ids import BatchId, CallId, EvidenceId, RunId, SessionId, TaskId
from runner.domain.outcome import Outcome, RunState
from runner.domain.records import Batch, Run, SetupResult, Task
from runner.domain.task import (
    AgentKind,
    AgentSpec,
    BatchSpec,
    RepositorySpec,
    SetupSpec,
    TaskSpec,
)
from runner.domain.visible import show_text
from runner.errors import ResultsError
from sandbox import CommitId, RepositoryId, Snapshot, SnapshotId

SNAPSHOT = Snapshot(
    snapshot_id=SnapshotId("sha256:s"),
    content_id="sha256:c",
    repository_id=RepositoryId("r"),
    base_commit=CommitId("0" * 40),
    commit=CommitId("1" * 40),
    source_tree="t",
    full_tree="f",
)
AT = datetime(2026, 11, 30, 12, tzinfo=UTC)


def make_report(
    name: str = "one", outcome: Outcome | None = Outcome.VERIFIED, *, goal: str = "Fix."
) -> TaskReport:
    spec = TaskSpec(
        name=name,
        goal=goal,
        repo=RepositorySpec(kind="path", location="/code"),
        image="python",
        policy="{}",
        agent=AgentSpec(kind=AgentKind.SCRIPTED),
    )
    task = Task(
        task_id=TaskId("t1"),
        batch_id=BatchId("b1"),
        session_id=SessionId("s1"),
        position=0,
        spec=spec,
        created_at=AT,
    )
    run = Run(
        run_id=RunId("r1"),
        batch_id=task.batch_id,
        task_id=task.task_id,
        session_id=task.session_id,
        number=1,
        state=outcome.state if outcome else RunState.RUNNING,
        outcome=outcome,
        reason="because \x1b[31m",
        created_at=AT,
    )
    return TaskReport(task=task, runs=(run,), clocks=measure_clocks([run], now=AT))


def make_batch(tmp_path: Path, *tasks: TaskReport) -> BatchReport:
    spec = BatchSpec(name="repairs", file="/b.yaml", tasks=tuple(one.task.spec for one in tasks))
    folder = str(tmp_path / "repairs" / "b1")
    batch = Batch(batch_id=BatchId("b1"), spec=spec, results_dir=folder, created_at=AT)
    return BatchReport(batch=batch, tasks=tasks)


def make_results(report: TaskReport, *, patch: bytes = b"diff\n") -> TaskResults:
    step = ToolStep(
        seq=3, call_id=CallId("c1"), at=AT, tool="shell", arguments='{"command":"ls"}', text="<b>"
    )
    return TaskResults(
        report=report, timeline=(step,), patch=patch, rollout=b"{}\n", verify_log=b"ok\n"
    )


def list_names(folder: Path) -> list[str]:
    return sorted(one.name for one in folder.iterdir())


def write_all(tmp_path: Path, *tasks: TaskReport, patch: bytes = b"diff\n") -> Path:
    batch, writer = make_batch(tmp_path, *tasks), FolderResultsWriter()
    for task in tasks:
        if task.outcome is not None:
            writer.write_task(batch.batch.results_dir, make_results(task, patch=patch))
    writer.write_batch(batch)
    return Path(batch.batch.results_dir)


def test_a_task_gets_its_four_files_and_nothing_else(tmp_path: Path) -> None:
    folder = write_all(tmp_path, make_report())

    assert list_names(folder / "one") == [
        "changes.patch",
        "result.json",
        "rollout.jsonl",
        "verify.log",
    ]
    assert (folder / "one/changes.patch").read_bytes() == b"diff\n"
    assert json.loads((folder / "one/result.json").read_bytes())["outcome"] == "verified"


def test_a_task_with_a_setup_gets_its_log_and_the_report_says_how_it_ended(tmp_path: Path) -> None:
    plain = make_report()
    spec = plain.task.spec.model_copy(update={"setup": SetupSpec(argv=("make", "<deps>"))})
    setup = SetupResult(passed=False, exit_code=2, detail="exit code 2", log=EvidenceId("e"))
    report = replace(
        plain, task=replace(plain.task, spec=spec), runs=(replace(plain.run, setup=setup),)
    )
    batch, writer = make_batch(tmp_path, report), FolderResultsWriter()
    folder = Path(batch.batch.results_dir)

    writer.write_task(str(folder), replace(make_results(report), setup_log=b"why\n"))
    writer.write_batch(batch)

    assert (folder / "one/setup.log").read_bytes() == b"why\n"
    page = (folder / "report.html").read_text()
    assert "make &lt;deps&gt;" in page
    assert "failed (exit code 2)" in page
    assert 'href="one/setup.log"' in page


def test_a_batch_gets_three_reports_and_latest_points_at_it(tmp_path: Path) -> None:
    folder = write_all(tmp_path, make_report())

    assert list_names(folder) == ["junit.xml", "one", "report.html", "report.json"]
    assert (tmp_path / "repairs/latest").readlink() == Path("b1")
    assert list_names(tmp_path / "repairs") == ["b1", "latest"]


def test_a_finished_task_is_never_touched_again(tmp_path: Path) -> None:
    folder = write_all(tmp_path, make_report())
    before = {one.name: one.stat() for one in (folder / "one").iterdir()}

    write_all(tmp_path, make_report(outcome=Outcome.KILLED), patch=b"other\n")

    assert {one.name: one.stat() for one in (folder / "one").iterdir()} == before


def test_a_task_whose_marker_is_missing_is_written_again(tmp_path: Path) -> None:
    folder = write_all(tmp_path, make_report())
    (folder / "one/result.json").unlink()

    write_all(tmp_path, make_report(), patch=b"new\n")

    assert (folder / "one/changes.patch").read_bytes() == b"new\n"


def test_latest_moves_to_the_newer_batch(tmp_path: Path) -> None:
    write_all(tmp_path, make_report())
    report = make_batch(tmp_path, make_report())
    newer = replace(report.batch, results_dir=str(tmp_path / "repairs" / "b2"))

    FolderResultsWriter().write_batch(replace(report, batch=newer))

    assert (tmp_path / "repairs/latest").readlink() == Path("b2")


def test_reporting_an_older_batch_again_leaves_latest_at_the_newer_one(tmp_path: Path) -> None:
    write_all(tmp_path, make_report())
    old = make_batch(tmp_path, make_report())
    newer = replace(
        old.batch,
        results_dir=str(tmp_path / "repairs" / "b2"),
        created_at=old.batch.created_at + timedelta(seconds=1),
    )
    FolderResultsWriter().write_batch(replace(old, batch=newer))

    FolderResultsWriter().write_batch(old)

    assert (tmp_path / "repairs/latest").readlink() == Path("b2")


def test_something_else_named_latest_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "repairs").mkdir()
    (tmp_path / "repairs/latest").write_text("mine")

    with pytest.raises(ResultsError, match="is not a link of ours"):
        write_all(tmp_path, make_report())


def test_a_folder_that_cannot_be_made_is_a_results_error(tmp_path: Path) -> None:
    (tmp_path / "repairs").write_text("a file in the way")

    with pytest.raises(ResultsError, match="Not a directory"):
        write_all(tmp_path, make_report())


@pytest.mark.parametrize(
    ("outcome", "child"),
    [
        (Outcome.VERIFIED, None),
        (Outcome.NOT_VERIFIED, "failure"),
        (Outcome.PREVENTED, "failure"),
        (Outcome.TIMED_OUT, "failure"),
        (Outcome.INFRASTRUCTURE_ERROR, "error"),
        (Outcome.SANDBOX_LOST, "error"),
        (None, "skipped"),
    ],
)
def test_junit_tells_failures_from_errors_of_the_infrastructure(
    tmp_path: Path, outcome: Outcome | None, child: str | None
) -> None:
    folder = write_all(tmp_path, make_report(outcome=outcome))

    case = ET.parse(folder / "junit.xml").getroot().find("testsuite/testcase")

    assert case is not None
    assert [one.tag for one in case] == ([] if child is None else [child])


def test_markup_in_goals_patches_and_results_is_shown_as_text(tmp_path: Path) -> None:
    evil = "<script>alert(1)</script>"

    folder = write_all(tmp_path, make_report(goal=evil), patch=evil.encode())

    page = (folder / "report.html").read_text()
    assert "<script" not in page
    assert page.count("&lt;script&gt;") == 2
    assert "<pre>&lt;b&gt;</pre>" in page


def test_flagged_paths_stand_in_the_report_and_in_the_result(tmp_path: Path) -> None:
    flagged = (FlaggedPath(b".envrc<b>", "shell", "entering the folder runs it"),)
    files = TaskFiles(snapshot=SNAPSHOT, changes=Changes(), flagged=flagged)

    folder = write_all(tmp_path, replace(make_report(), files=files))

    page = (folder / "report.html").read_text()
    assert "Look twice" in page
    assert "<code>.envrc&lt;b&gt;</code>" in page
    result = json.loads((folder / "one/result.json").read_bytes())
    assert result["flagged"][0]["path"] == ".envrc<b>"


def test_what_cannot_be_seen_is_shown_by_its_code() -> None:
    assert show_text("a\x1b[31m\u202eb\u200b\ttab") == "a[U+001B][31m[U+202E]b[U+200B]\ttab"


def test_a_long_patch_is_cut_in_the_report_and_counted(tmp_path: Path) -> None:
    folder = write_all(tmp_path, make_report(), patch=b"+" * (64 * 1024 + 7))

    assert "7 more bytes are in changes.patch" in (folder / "report.html").read_text()


def test_a_patch_that_is_no_text_does_not_harm_the_report(tmp_path: Path) -> None:
    folder = write_all(tmp_path, make_report(), patch=b"\xff\xfe\x00")

    assert "\\xff" in (folder / "report.html").read_text()
    assert (folder / "one/changes.patch").read_bytes() == b"\xff\xfe\x00"


def test_a_task_that_has_not_ended_is_in_the_report_as_it_stands(tmp_path: Path) -> None:
    folder = write_all(tmp_path, make_report(outcome=None))

    assert "Not all tasks have ended yet" in (folder / "report.html").read_text()
    assert json.loads((folder / "report.json").read_bytes())["outcomes"] == {"one": None}


def test_a_patch_that_could_not_be_made_keeps_no_other_file_from_being_written(
    tmp_path: Path,
) -> None:
    report = make_report()
    writer, batch = FolderResultsWriter(), make_batch(tmp_path, report)
    results = replace(make_results(report, patch=b""), patch_problem="it is too large")

    writer.write_task(batch.batch.results_dir, results)
    writer.write_batch(batch)

    folder = Path(batch.batch.results_dir)
    stored = json.loads((folder / "one/result.json").read_bytes())
    assert (stored["patch_bytes"], stored["patch_problem"]) == (None, "it is too large")
    assert not (folder / "one/changes.patch").exists()
    assert (folder / "one/rollout.jsonl").exists()
    assert "it is too large" in (folder / "report.html").read_text()
