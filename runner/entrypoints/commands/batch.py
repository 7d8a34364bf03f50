"""`forkyard batch …`."""

from __future__ import annotations

from pathlib import Path

import click

from runner.application.attended import is_unattended
from runner.application.cancel import cancel_batch
from runner.application.describe_task import BatchFollower, describe_batch
from runner.application.room import find_shortage
from runner.bootstrap import App, read_batch_file
from runner.domain.ids import BatchId
from runner.domain.outcome import RunState
from runner.entrypoints.answers import Answer, BatchEnded, BatchStanding, Cancelled
from runner.entrypoints.context import Context, pass_context
from runner.entrypoints.find_id import find_batch_id
from runner.entrypoints.options import json_option, parallel_option, results_option
from runner.entrypoints.progress import make_progress
from runner.entrypoints.submitting import check_batch, store_batch
from runner.entrypoints.watching import watch
from runner.entrypoints.working import finish_batch, work_on_batch

FILE = click.Path(path_type=Path, dir_okay=False)


@click.group()
def batch() -> None:
    """Dispatch a file of tasks and follow it."""


@batch.command()
@click.argument("file", type=FILE)
@results_option
@parallel_option
@json_option
@pass_context
def run(context: Context, file: Path, results: Path, max_parallel: int | None) -> Answer:
    """Submit FILE and work on it until every task has ended.

    Exits 0 when every task ended as its `expect` says, 1 otherwise. Ctrl-C suspends; `batch
    resume` goes on.
    """
    with context.open() as app:
        return run_file(app, context, file, results=results, parallel=max_parallel)


def run_file(
    app: App, context: Context, file: Path, *, results: Path, parallel: int | None
) -> BatchEnded:
    """Submit a batch file and work on it.

    Raises:
        BatchFileError: the file cannot be used; nothing was stored.
        ImageMissingError: an image is missing; nothing was stored.
    """
    spec = read_batch_file(file, app.settings)
    stored = store_batch(app, spec, results=results, say=context.say)
    context.say(
        f"batch {stored.batch_id}: {len(spec.tasks)} tasks, results in {stored.results_dir}"
    )
    return work(app, context, stored.batch_id, parallel=parallel)


def work(app: App, context: Context, batch_id: BatchId, *, parallel: int | None) -> BatchEnded:
    """Work on a stored batch with the progress that fits the terminal.

    Raises:
        ConflictError: the rest is being worked on by another process.
    """
    progress = make_progress(
        context.console,
        app.services.clock,
        look=BatchFollower(batch_id, app.services).look,
    )
    return work_on_batch(app, batch_id, progress=progress, parallel=parallel)


@batch.command()
@click.argument("file", type=FILE)
@json_option
@pass_context
def check(context: Context, file: Path) -> Answer:
    """Do everything short of starting FILE, and say what it can cost at most."""
    with context.open() as app:
        return check_batch(app, read_batch_file(file, app.settings))


@batch.command()
@click.argument("file", type=FILE)
@results_option
@json_option
@pass_context
def submit(context: Context, file: Path, results: Path) -> Answer:
    """Store FILE's tasks; `worker` or `batch resume` works on them."""
    with context.open() as app:
        stored = store_batch(
            app, read_batch_file(file, app.settings), results=results, say=context.say
        )
        report = describe_batch(stored.batch_id, app.services)
        return BatchStanding(report, unattended=is_unattended(report, app.services))


@batch.command()
@click.argument("batch_id", default="", metavar="[BATCH]")
@json_option
@pass_context
def status(context: Context, batch_id: str) -> Answer:
    """Count a batch's tasks by state and outcome; without an id, the newest batch's."""
    with context.open() as app:
        report = describe_batch(find_batch_id(app, batch_id), app.services)
        waiting = any(task.state is RunState.QUEUED for task in report.tasks)
        shortage = find_shortage(app.services) if waiting else ""
        return BatchStanding(report, shortage, is_unattended(report, app.services))


@batch.command(name="watch")
@click.argument("batch_id", default="", metavar="[BATCH]")
@json_option
@pass_context
def watch_command(context: Context, batch_id: str) -> Answer:
    """Follow a batch that another process works on until it has ended."""
    with context.open() as app:
        return watch(app, context, find_batch_id(app, batch_id))


@batch.command()
@click.argument("batch_id", metavar="BATCH")
@json_option
@pass_context
def cancel(context: Context, batch_id: str) -> Answer:
    """End a batch: tasks that have not started at once, running ones at their next step."""
    with context.open() as app:
        found = find_batch_id(app, require(batch_id))
        open_tasks = cancel_batch(found, app.services)
        finish_batch(app, found)
        return Cancelled("batch", found, open_tasks)


@batch.command()
@click.argument("batch_id", default="", metavar="[BATCH]")
@parallel_option
@json_option
@pass_context
def resume(context: Context, batch_id: str, max_parallel: int | None) -> Answer:
    """Go on with a batch that was suspended or whose process died.

    Finished tasks are kept as they are; interrupted ones continue from their last durable point.
    """
    with context.open() as app:
        return work(app, context, find_batch_id(app, batch_id), parallel=max_parallel)


@batch.command()
@click.argument("batch_id", default="", metavar="[BATCH]")
@json_option
@pass_context
def report(context: Context, batch_id: str) -> Answer:
    """Write a batch's reports from the store and say where they are."""
    with context.open() as app:
        return finish_batch(app, find_batch_id(app, batch_id))


def require(name: str) -> str:
    """Return an id that was given.

    Raises:
        click.UsageError: it is empty.
    """
    if not name:
        raise click.UsageError("give an id")
    return name
