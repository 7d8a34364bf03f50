"""Works on a batch in this process until it is done, or suspends it on a signal."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import structlog

from runner.application.describe_task import describe_batch, describe_row
from runner.application.dispatch import Dispatcher, DispatchOptions
from runner.application.write_results import write_batch_results, write_task_results
from runner.bootstrap import App
from runner.domain.ids import BatchId
from runner.domain.outcome import RunState
from runner.domain.records import Task
from runner.entrypoints.answers import BatchEnded
from runner.entrypoints.progress import Progress
from runner.errors import ConflictError, RunnerError
from sandbox import SandboxError

SUSPENDING = (signal.SIGINT, signal.SIGHUP, signal.SIGTERM)

DEFAULT_PARALLEL = 64
"""Threads of one process; the batch and the host's size are what limits in practice."""

REPORT_SECONDS = 10.0
"""How long the reports of a running batch may be behind its tasks' files."""

log = structlog.get_logger()


@contextmanager
def suspend_on_signals() -> Iterator[threading.Event]:
    """Yield an event that a signal sets; the former handlers come back at the end."""
    stop = threading.Event()

    def ask_to_stop(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    former = {number: signal.signal(number, ask_to_stop) for number in SUSPENDING}
    try:
        yield stop
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)


def work_on_batch(
    app: App, batch_id: BatchId, *, progress: Progress, parallel: int | None
) -> BatchEnded:
    """Work until nothing of the batch is due any more, and write its results.

    Raises:
        ConflictError: the rest is being worked on by another process.
        StoreError: the store failed.
    """
    options = DispatchOptions(batch_id=batch_id, parallel=parallel or DEFAULT_PARALLEL)
    with suspend_on_signals() as stop, progress:
        run_dispatcher(app, stop, options=options, progress=progress)
        interrupted = stop.is_set()
    ended = finish_batch(app, batch_id)
    if ended.report.ended:
        return ended
    busy = [one for one in ended.report.tasks if one.state in (RunState.RUNNING, RunState.QUEUED)]
    if busy and not interrupted:
        raise ConflictError(
            f"{len(busy)} tasks of batch {batch_id} are being worked on by another process; "
            f"`forkyard batch watch {batch_id}` follows them"
        )
    return BatchEnded(report=ended.report, interrupted=interrupted, problems=ended.problems)


def run_dispatcher(
    app: App, stop: threading.Event, *, options: DispatchOptions, progress: Progress
) -> None:
    """Dispatch until done or stopped; each task's results are written as it ends.

    Raises:
        StoreError: the store failed.
    """
    reports = BatchReports(app)

    def on_ended(task: Task) -> None:
        problem = _write_task(app, task)
        if problem:
            log.error("results.failed", task_id=task.task_id, problem=problem)
        reports.refresh(task.batch_id)
        progress.ended(describe_row(task.task_id, app.services))

    Dispatcher(
        app.services,
        app.capacity,
        options=options,
        on_activity=progress.tell,
        on_ended=on_ended,
    ).run(stop)


class BatchReports:
    """Writes batch-level reports while tasks end, not more often than is worth it."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._written_at: dict[BatchId, float] = {}

    def refresh(self, batch_id: BatchId) -> None:
        """Write a batch's reports, unless that was done within the last seconds."""
        now = self._app.services.clock.monotonic()
        if now - self._written_at.setdefault(batch_id, now) < REPORT_SECONDS:
            return
        self._written_at[batch_id] = now
        problem = _write_batch(self._app, batch_id)
        if problem:
            log.error("report.failed", batch_id=batch_id, problem=problem)


def finish_batch(app: App, batch_id: BatchId) -> BatchEnded:
    """Write whatever is still missing of a batch's results and return how it stands."""
    report = describe_batch(batch_id, app.services)
    ended = [one for one in report.tasks if one.state.terminal]
    problems = [problem for one in ended if (problem := _write_task(app, one.task))]
    problems.append(_write_batch(app, batch_id))
    return BatchEnded(report=report, problems=tuple(filter(None, problems)))


def _write_task(app: App, task: Task) -> str:
    """Write one task's results; return what kept them from being written, or nothing."""
    try:
        write_task_results(task.task_id, app.services, app.results)
    except (RunnerError, SandboxError) as error:
        return f"{task.spec.name}: {error}"
    return ""


def _write_batch(app: App, batch_id: BatchId) -> str:
    """Write a batch's reports; return what kept them from being written, or nothing."""
    try:
        write_batch_results(batch_id, app.services, app.results)
    except RunnerError as error:
        return str(error)
    return ""
