"""Where long work is shown while it goes on: a live table on a terminal, plain lines elsewhere."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from runner.application.ports.clock import Clock
from runner.application.report import BatchReport, TaskReport
from runner.domain.ids import TaskId
from runner.domain.outcome import Outcome, RunState
from runner.domain.records import Task
from runner.domain.visible import show_line
from runner.errors import StoreError

REFRESHES_PER_SECOND = 2

PHASES = ("preparing", "checking the files as they are", "verifying", "suspended")
"""Activities that are a state of their own; all others are the agent at work."""

WAITING = "waiting for "
"""So begin those that say what a task waits for."""

WORDS = ("task", "state", "doing")
NUMBERS = ("waited", "ran", "verified", "calls", "cost")
LEAST_IMPORTANT = ("waited", "verified", "cost", "calls", "ran")
"""In a narrow table these are left out, in this order."""

CUT = ("doing", "task")
"""These are cut where there is no room, in this order; the state never is."""

GOOD, LEAST = 20, 5
"""To so many cells before numbers are left out, and after."""

GAP = 2
NO_COST = "-"

STYLES = {
    RunState.RUNNING: "cyan",
    RunState.NEEDS_ATTENTION: "yellow",
    RunState.AWAITING_APPROVAL: "yellow",
}


class Progress(Protocol):
    """Told what happens. Thread-safe; a context that is open while the work goes on."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

    def tell(self, task: Task, activity: str) -> None:
        """Say in a few words what a task is doing now."""
        ...

    def ended(self, report: TaskReport) -> None:
        """Say that a task has ended for good."""
        ...


def make_progress(
    console: Console, clock: Clock, *, look: Callable[[], BatchReport] | None
) -> Progress:
    """Return the live table of a batch on a terminal, plain lines elsewhere.

    Args:
        look: reads the batch as it stands; None = there is no one batch to show.
    """
    if console.is_terminal and look is not None:
        return LiveTable(console, clock, look=look)
    return PlainLines(console, clock)


class PlainLines:
    """One line for each change of a task's state."""

    def __init__(self, console: Console, clock: Clock) -> None:
        self._console = console
        self._clock = clock
        self._phases: dict[TaskId, str] = {}
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        """Nothing has to be set up."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Nothing has to be put back."""

    def tell(self, task: Task, activity: str) -> None:
        """Print a line when the task's phase is another than before."""
        phase = name_phase(activity)
        with self._lock:
            if phase and self._phases.get(task.task_id) != phase:
                self._phases[task.task_id] = phase
                self._print(task, phase)

    def ended(self, report: TaskReport) -> None:
        """Print the outcome."""
        with self._lock:
            self._phases.pop(report.task.task_id, None)
            outcome = report.outcome.value if report.outcome else report.state.value
            self._print(report.task, f"{outcome}: {report.run.reason}".rstrip(": "))

    def _print(self, task: Task, text: str) -> None:
        at = self._clock.now().strftime("%H:%M:%S")
        line = f"{at} {task.spec.name}: {show_line(text, 300)}"
        self._console.print(Text(line), soft_wrap=True)


def name_phase(activity: str) -> str:
    """Return the state that an activity belongs to; empty for an outcome, which `ended` tells."""
    if activity in PHASES or activity.startswith(WAITING):
        return activity
    return "" if activity in set(Outcome) else "working"


@dataclass(frozen=True, slots=True)
class _Doing:
    """What a task has been doing since when."""

    activity: str
    since: float


class LiveTable:
    """A table of a batch's tasks, drawn again twice a second."""

    def __init__(self, console: Console, clock: Clock, *, look: Callable[[], BatchReport]) -> None:
        self._console = console
        self._clock = clock
        self._look = look
        self._doing: dict[TaskId, _Doing] = {}
        self._report: BatchReport | None = None
        """As it was last read; None = never yet."""
        self._lock = threading.Lock()
        self._live = Live(
            get_renderable=self.draw,
            console=console,
            refresh_per_second=REFRESHES_PER_SECOND,
            transient=True,
        )

    def __enter__(self) -> Self:
        """Start drawing."""
        self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Take the table away; the answer follows."""
        self._live.stop()

    def tell(self, task: Task, activity: str) -> None:
        """Keep what the task is doing for the next drawing."""
        with self._lock:
            self._doing[task.task_id] = _Doing(activity, self._clock.monotonic())

    def ended(self, report: TaskReport) -> None:
        """Forget what the task was doing."""
        with self._lock:
            self._doing.pop(report.task.task_id, None)

    def draw(self) -> Table:
        """Return the table as it is now; where the store fails for a moment, as it was."""
        with contextlib.suppress(StoreError):
            self._report = self._look()
        if self._report is None:
            return Table()
        width, height = self._console.size
        with self._lock:
            doing = {
                task_id: f"{one.activity} ({self._clock.monotonic() - one.since:.0f} s)"
                for task_id, one in self._doing.items()
            }
        return make_table(self._report, doing=doing, rows=max(3, height - 6), width=width)


def make_table(report: BatchReport, *, doing: dict[TaskId, str], rows: int, width: int) -> Table:
    """Return a batch as a table of at most so many rows, what is under way first.

    In a narrow one what a task does is cut first, then the numbers that matter least are left out.
    """
    order = sorted(report.tasks, key=lambda one: (one.state.terminal, one.run.started_at is None))
    shown = [_make_row(task, doing.get(task.task.task_id, "")) for task in order[:rows]]
    table = Table(
        title=f"{report.batch.spec.name} · {report.batch.batch_id}",
        title_justify="left",
        box=None,
        padding=(0, GAP, 0, 0),
        pad_edge=False,
    )
    widths = _choose_widths(shown, width)
    for heading, cells in widths.items():
        table.add_column(
            heading,
            width=cells,
            justify="right" if heading in NUMBERS else "left",
            overflow="ellipsis",
            no_wrap=True,
        )
    for row in shown:
        table.add_row(*(row[heading] for heading in widths))
    if len(order) > rows:
        table.caption = f"and {len(order) - rows} more"
    return table


def _choose_widths(rows: Sequence[Mapping[str, Text]], width: int) -> dict[str, int]:
    """Return the columns that fit, each with its width."""
    widths = {
        heading: max([len(heading), *(row[heading].cell_len for row in rows)])
        for heading in (*WORDS, *NUMBERS)
    }
    if all(row["cost"].plain == NO_COST for row in rows):
        del widths["cost"]
    for heading in LEAST_IMPORTANT:
        if _find_excess(widths, width) <= sum(max(0, widths[one] - GOOD) for one in CUT):
            break
        widths.pop(heading, None)
    for least in (GOOD, LEAST):
        for heading in CUT:
            excess = max(0, _find_excess(widths, width))
            widths[heading] -= min(excess, max(0, widths[heading] - least))
    return widths


def _find_excess(widths: Mapping[str, int], width: int) -> int:
    return sum(widths.values()) + GAP * (len(widths) - 1) - width


def _make_row(task: TaskReport, doing: str) -> dict[str, Text]:
    style = STYLES.get(task.state, "")
    if task.expected is not None:
        style = "green" if task.expected else "red"
    what = task.run.reason if task.state.terminal else doing
    usage, limit = task.run.usage, task.task.spec.budget
    # what no provider has reported is not called zero
    cost = f"{usage.cost_micro_usd / 1_000_000:.2f}" if usage.cost_micro_usd else NO_COST
    if limit.cost_micro_usd:
        cost += f"/{limit.cost_micro_usd / 1_000_000:.2f}"
    ran = _seconds(task.clocks.running_milliseconds)
    return {
        "task": Text(task.task.spec.name),
        "state": Text((task.outcome or task.state).value, style=style),
        "doing": Text(show_line(what, 60)),
        "waited": Text(_seconds(task.clocks.waiting_milliseconds)),
        "ran": Text(f"{ran}/{limit.wall_seconds} s"),
        "verified": Text(_seconds(task.clocks.verifying_milliseconds)),
        "calls": Text(f"{usage.model_calls}/{limit.model_calls}"),
        "cost": Text(cost),
    }


def _seconds(milliseconds: int) -> str:
    return f"{milliseconds / 1000:.0f} s"
