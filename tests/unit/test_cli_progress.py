from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from io import StringIO

import pytest
from rich.console import Console

from runner.adapters.fixed_clock import FixedClock
from runner.application.report import BatchReport, TaskReport, measure_clocks
from runner.domain.ids import BatchId, RunId, SessionId, TaskId
from runner.domain.outcome import Outcome, RunState
from runner.domain.records import Batch, Run, Task
from runner.domain.task import AgentKind, AgentSpec, BatchSpec, RepositorySpec, TaskSpec
from runner.entrypoints.answers import (
    Answer,
    BatchEnded,
    BatchStanding,
    Cancelled,
    DemoEnded,
    TaskShown,
    Worked,
)
from runner.entrypoints.exit_codes import ExitCode
from runner.entrypoints.progress import (
    LiveTable,
    PlainLines,
    make_progress,
    make_table,
    name_phase,
)
from runner.entrypoints.render import render_answer

AT = datetime(2026, 11, 30, 12, tzinfo=UTC)


def make_task(name: str) -> Task:
    spec = TaskSpec(
        name=name,
        goal="Make it pass.",
        repo=RepositorySpec(kind="path", location="/code"),
        image="python",
        policy="{}",
        agent=AgentSpec(kind=AgentKind.SCRIPTED),
    )
    return Task(
        task_id=TaskId(f"t{name}"),
        batch_id=BatchId("b1"),
        session_id=SessionId(f"s{name}"),
        position=0,
        spec=spec,
        created_at=AT,
    )


def make_report(
    name: str = "one", outcome: Outcome | None = Outcome.VERIFIED, *, reason: str = "it passed"
) -> TaskReport:
    task = make_task(name)
    run = Run(
        run_id=RunId("r1"),
        batch_id=task.batch_id,
        task_id=task.task_id,
        session_id=task.session_id,
        number=1,
        state=outcome.state if outcome else RunState.RUNNING,
        outcome=outcome,
        reason=reason,
        created_at=AT,
        started_at=AT,
    )
    return TaskReport(task=task, runs=(run,), clocks=measure_clocks([run], now=AT))


def make_batch(*tasks: TaskReport) -> BatchReport:
    spec = BatchSpec(name="repairs", file="/b.yaml", tasks=tuple(one.task.spec for one in tasks))
    batch = Batch(batch_id=BatchId("b1"), spec=spec, results_dir="/r/b1", created_at=AT)
    return BatchReport(batch=batch, tasks=tasks)


@pytest.fixture
def stream() -> StringIO:
    return StringIO()


@pytest.fixture
def lines(stream: StringIO) -> PlainLines:
    return PlainLines(Console(file=stream, width=80), FixedClock(AT))


def test_a_task_gets_one_line_for_each_change_of_its_state(
    lines: PlainLines, stream: StringIO
) -> None:
    task = make_task("one")

    for activity in ("preparing", "thinking", "shell", "thinking", "verifying", "verified"):
        lines.tell(task, activity)
    lines.ended(make_report())

    assert stream.getvalue().splitlines() == [
        "12:00:00 one: preparing",
        "12:00:00 one: working",
        "12:00:00 one: verifying",
        "12:00:00 one: verified: it passed",
    ]


def test_a_line_is_one_line_whatever_a_reason_holds(lines: PlainLines, stream: StringIO) -> None:
    lines.ended(make_report(reason="a\nb\x1b[2J [bold]" + "c" * 100))

    (line,) = stream.getvalue().splitlines()
    assert "a b[U+001B][2J [bold]ccc" in line


def test_a_terminal_gets_the_table_and_a_pipe_gets_lines() -> None:
    clock = FixedClock(AT)
    terminal = Console(file=StringIO(), force_terminal=True)

    assert isinstance(make_progress(terminal, clock, look=make_batch), LiveTable)
    assert isinstance(make_progress(terminal, clock, look=None), PlainLines)
    assert isinstance(make_progress(Console(file=StringIO()), clock, look=make_batch), PlainLines)


def test_the_table_shows_what_is_under_way_first_and_counts_the_rest() -> None:
    batch = make_batch(make_report("done"), make_report("busy", None), make_report("also"))
    console = Console(file=StringIO(), width=160, record=True)

    console.print(make_table(batch, doing={TaskId("tbusy"): "shell (3 s)"}, rows=2, width=160))

    text = console.export_text()
    assert text.index("busy") < text.index("done")
    assert "shell (3 s)" in text
    assert "and 1 more" in text


def draw(*tasks: TaskReport, doing: str, width: int) -> list[str]:
    console = Console(file=StringIO(), width=width, record=True)
    what = {one.task.task_id: doing for one in tasks}
    console.print(make_table(make_batch(*tasks), doing=what, rows=9, width=width))
    return [line.rstrip() for line in console.export_text().splitlines()]


def test_in_80_columns_what_is_done_is_cut_and_the_state_is_not() -> None:
    long = "more-itertools-windowed-complete"
    ended = make_report("two", Outcome.INFRASTRUCTURE_ERROR, reason="the engine " * 9)

    title, head, busy, other = draw(make_report(long, None), ended, doing="shell (3 s)", width=80)

    assert title == "repairs · b1"
    assert head.split()[:4] == ["task", "state", "doing", "ran"]
    assert "  running " in busy
    assert "shell (3 s)" in busy
    assert " infrastructure_error  the engine " in other
    assert "…" in other
    assert all(len(line) <= 80 for line in (head, busy, other))


def test_in_80_columns_short_words_leave_room_for_all_numbers() -> None:
    _, head, busy = draw(make_report("one", None), doing="shell (3 s)", width=80)

    assert head.split() == ["task", "state", "doing", "waited", "ran", "verified", "calls"]
    assert "shell (3 s)" in busy


@pytest.mark.parametrize("width", [30, 40, 60, 80, 100, 200])
def test_a_table_of_any_width_has_no_column_without_a_heading(width: int) -> None:
    ended = make_report("b" * 50, Outcome.NOT_VERIFIED, reason="it did not pass " * 9)

    _, head, *rows = draw(make_report("a" * 50, None), ended, doing="shell (3 s)", width=width)

    assert head.split()[:3] == ["task", "state", "doing"]
    assert any("not_verified" in row for row in rows)


def test_the_live_table_draws_and_goes_away() -> None:
    stream = StringIO()
    console = Console(file=stream, force_terminal=True, width=120)
    task = make_task("one")

    with LiveTable(console, FixedClock(AT), look=lambda: make_batch(make_report())) as table:
        table.tell(task, "shell")
        table.ended(make_report())

    assert "repairs" in stream.getvalue()


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (BatchEnded(report=make_batch(make_report())), ExitCode.AS_WANTED),
        (BatchEnded(report=make_batch(make_report("x", Outcome.KILLED))), ExitCode.NOT_AS_WANTED),
        (BatchEnded(report=make_batch(make_report("x", None))), ExitCode.NOT_AS_WANTED),
        (
            BatchEnded(report=make_batch(make_report()), problems=("disk",)),
            ExitCode.NOT_AS_WANTED,
        ),
        (
            BatchEnded(report=make_batch(make_report("x", None)), interrupted=True),
            ExitCode.INTERRUPTED,
        ),
        (BatchStanding(make_batch(make_report("x", Outcome.KILLED))), ExitCode.AS_WANTED),
        (Worked(interrupted=True), ExitCode.INTERRUPTED),
        (Worked(interrupted=False), ExitCode.AS_WANTED),
    ],
)
def test_expect_decides_the_exit_code_of_a_batch(answer: Answer, code: ExitCode) -> None:
    assert answer.exit_code == code


def show(answer: Answer) -> str:
    return render_answer(answer, as_json=False).decode()


def test_an_interrupted_batch_says_how_to_go_on() -> None:
    answer = BatchEnded(report=make_batch(make_report("x", None)), interrupted=True)

    assert "`forkyard batch resume b1` goes on" in show(answer)


def test_an_interrupted_watch_has_suspended_nothing() -> None:
    report = make_batch(make_report("x", None))
    answer = BatchEnded(report=report, interrupted=True, watched=True)

    assert "watching has ended; the batch goes on where it is worked on" in show(answer)
    assert "suspended" not in show(answer)
    assert answer.exit_code == ExitCode.INTERRUPTED


def test_a_batch_that_nobody_works_on_says_how_to_go_on() -> None:
    report = make_batch(make_report("x", None))
    left = BatchEnded(report=report, interrupted=True, watched=True, unattended=True)

    for answer in (BatchStanding(report, unattended=True), left):
        assert "no process works on it now; `forkyard batch resume b1`" in show(answer)


@pytest.mark.parametrize(("count", "words"), [(1, "1 task had"), (2, "2 tasks had")])
def test_a_cancellation_counts_in_words(count: int, words: str) -> None:
    assert words in show(Cancelled("batch", "b1", count))


def test_a_task_that_needs_a_person_is_listed() -> None:
    report = make_report("x", None, reason="what became of it?")
    stuck = replace(report.run, state=RunState.NEEDS_ATTENTION)

    text = show(BatchEnded(report=make_batch(replace(report, runs=(stuck,)))))

    assert "needs you: x (tx): what became of it?" in text


def test_the_demo_says_what_to_look_at_next() -> None:
    prevented = make_report("two", Outcome.PREVENTED)

    text = show(DemoEnded(BatchEnded(report=make_batch(make_report(), prevented)), "forkyard"))

    assert "/r/b1/report.html" in text
    assert "/r/b1/one/changes.patch" in text
    assert "forkyard task log ttwo" in text
    assert "forkyard task apply tone --branch one" in text


def test_what_agents_say_cannot_steer_a_terminal() -> None:
    text = show(TaskShown(make_report(reason="\x1b]0;owned\x07")))

    assert "\x1b" not in text
    assert "[U+001B]" in text


def test_what_a_task_waits_for_is_a_phase_that_is_printed() -> None:
    assert name_phase("waiting for the engine") == "waiting for the engine"
    assert name_phase("shell") == "working"
