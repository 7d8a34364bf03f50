"""What agents and repositories wrote cannot steer the terminal that it is shown on."""

from __future__ import annotations

from collections.abc import Iterator
from io import StringIO

import pytest
import structlog
from rich.console import Console
from run_builders import FINISH, FIX, Yard, shell

from runner.adapters.fixed_clock import FixedClock
from runner.application.describe_task import describe_batch
from runner.application.report import BatchReport
from runner.entrypoints.answers import Answer, Exported, Patch
from runner.entrypoints.context import Context
from runner.entrypoints.logs import set_up_logs
from runner.entrypoints.progress import LiveTable
from runner.entrypoints.render import render_answer
from runner.errors import StoreBusyError

EVIL = b"+\x1b]0;owned\x07 \xc2\x9b31m \xe2\x80\xae\xff\n"

ANSWERS: tuple[Answer, ...] = (Patch("t1", EVIL), Exported(EVIL))


@pytest.mark.parametrize("answer", ANSWERS)
def test_bytes_for_a_terminal_show_what_would_steer_it(answer: Answer) -> None:
    shown = render_answer(answer, as_json=False, on_terminal=True).decode()

    assert "[U+001B]" in shown
    assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(shown)


@pytest.mark.parametrize("answer", ANSWERS)
def test_bytes_for_a_file_stay_as_they_are(answer: Answer) -> None:
    assert render_answer(answer, as_json=False, on_terminal=False) == EVIL


def test_a_line_about_long_work_cannot_steer_the_terminal() -> None:
    out = StringIO()

    Context(Console(file=out)).say("building \x1b[31m/x")

    assert out.getvalue() == "building [U+001B][31m/x\n"


@pytest.fixture
def _logs() -> Iterator[None]:
    set_up_logs("warning")
    yield
    structlog.reset_defaults()


@pytest.mark.usefixtures("_logs")
def test_a_log_line_cannot_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    structlog.get_logger().warning("sandbox.lost", problem="\x1b[31mred\nnext", count=1)

    told = capsys.readouterr().err
    assert "[U+001B][31mred next" in told
    assert "\x1b" not in told


def test_a_store_that_fails_for_a_moment_leaves_the_table_as_it_was() -> None:
    yard = Yard([shell(FIX)], [FINISH])
    report = describe_batch(yard.batch.batch_id, yard.services)
    failing = False

    def look() -> BatchReport:
        if failing:
            raise StoreBusyError("locked")
        return report

    table = LiveTable(Console(file=StringIO()), FixedClock(), look=look)
    failing = True

    assert table.draw().row_count == 1
