"""`forkyard task …`."""

from __future__ import annotations

from pathlib import Path

import click

from runner.application.apply_task import apply_to_branch, apply_to_checkout
from runner.application.cancel import cancel_task
from runner.application.describe_task import describe_task, list_task_reports
from runner.domain.outcome import Outcome
from runner.entrypoints.answers import (
    Answer,
    Branched,
    Cancelled,
    CheckedOut,
    Patch,
    TaskEnded,
    TaskListing,
    TaskLog,
    TaskShown,
)
from runner.entrypoints.commands.batch import work
from runner.entrypoints.context import Context, pass_context
from runner.entrypoints.find_id import find_batch_id, find_task_id
from runner.entrypoints.one_task import OneTask, read_one_task
from runner.entrypoints.options import json_option, results_option
from runner.entrypoints.render import show_flagged
from runner.entrypoints.submitting import store_batch
from runner.entrypoints.working import finish_batch
from runner.errors import ConflictError, UsageError


@click.group()
def task() -> None:
    """Look at single tasks, and run one without a batch file."""


@task.command()
@click.option("--repo", required=True, help="Path, URL or archive of the repository.")
@click.option("--ref", default="HEAD", show_default=True, help="Branch, tag or commit.")
@click.option("--goal", required=True, help="What the agent is asked to do.")
@click.option("--script", required=True, help="File with the replies of the scripted agent.")
@click.option("--verify", required=True, help="Command whose exit code says whether it is done.")
@click.option("--image", default="python", show_default=True)
@click.option("--policy", default="repair", show_default=True, help="Built-in name or path.")
@click.option("--protect", multiple=True, metavar="GLOB", help="Paths that must not change.")
@click.option("--forbid-delete", is_flag=True, help="No file may be deleted.")
@click.option("--name", default="task", show_default=True, help="Folder of the results.")
@click.option(
    "--expect",
    type=click.Choice([one.value for one in Outcome]),
    default=Outcome.VERIFIED.value,
    show_default=True,
)
@results_option
@json_option
@pass_context
def run(context: Context, /, results: Path, **words: object) -> Answer:
    """Run one task without a batch file."""
    with context.open() as app:
        spec = read_one_task(OneTask.model_validate(words), app.settings)
        stored = store_batch(app, spec, results=results, say=context.say)
        ended = work(app, context, stored.batch_id, parallel=1)
        return TaskEnded(describe_task(ended.report.tasks[0].task.task_id, app.services), ended)


@task.command(name="list")
@click.option("--batch", "batch_id", default="", help="Only the tasks of this batch.")
@json_option
@pass_context
def list_command(context: Context, batch_id: str) -> Answer:
    """List tasks, of all batches or of one."""
    with context.open() as app:
        found = find_batch_id(app, batch_id) if batch_id else None
        return TaskListing(tuple(list_task_reports(app.services, found, snapshots=True)))


@task.command()
@click.argument("task_id", metavar="TASK")
@json_option
@pass_context
def show(context: Context, task_id: str) -> Answer:
    """Show what a task has come to."""
    with context.open() as app:
        return TaskShown(describe_task(find_task_id(app, task_id), app.services))


@task.command()
@click.argument("task_id", metavar="TASK")
@click.option("--after", type=click.IntRange(0), default=0, help="Only items after this seq.")
@json_option
@pass_context
def log(context: Context, task_id: str, after: int) -> Answer:
    """Show the items of a task's session in order."""
    with context.open() as app, app.services.store.read() as view:
        found = view.get_task(find_task_id(app, task_id))
        return TaskLog(found.task_id, tuple(view.list_items(found.session_id, after=after)))


@task.command()
@click.argument("task_id", metavar="TASK")
@json_option
@pass_context
def diff(context: Context, task_id: str) -> Answer:
    """Print what a task has changed so far as a patch; what to look at twice goes to stderr."""
    with context.open() as app:
        found = find_task_id(app, task_id)
        files = describe_task(found, app.services).files
        if files is None:
            return Patch(found, b"")
        for line in show_flagged(files.flagged):
            context.say(line)
        return Patch(found, app.services.host.make_patch(files.snapshot), files.flagged)


@task.command()
@click.argument("task_id", metavar="TASK")
@click.option("--branch", default="", help="Make this branch; the checkout stays.")
@click.option("--checkout", is_flag=True, help="Change the files of the checkout.")
@click.option(
    "--accept-flagged",
    is_flag=True,
    help="With --checkout: also write files that your own tools execute or obey.",
)
@json_option
@pass_context
def apply(context: Context, /, task_id: str, branch: str, **how: bool) -> Answer:
    """Bring a task's changes into the repository it came from, as a branch or into the files."""
    checkout, accepted = how["checkout"], how["accept_flagged"]
    if bool(branch) == checkout:
        raise UsageError("give either --branch NAME or --checkout")
    if accepted and not checkout:
        raise UsageError("--accept-flagged belongs to --checkout; a branch is always made")
    with context.open() as app:
        found = find_task_id(app, task_id)
        if checkout:
            written = apply_to_checkout(found, app.services, accept_flagged=accepted)
            return CheckedOut(found, written)
        return Branched(found, branch, apply_to_branch(found, app.services, branch=branch))


@task.command()
@click.argument("task_id", metavar="TASK")
@json_option
@pass_context
def cancel(context: Context, task_id: str) -> Answer:
    """End a task: at once when it has not started, otherwise at its next step."""
    with context.open() as app:
        found = find_task_id(app, task_id)
        if not cancel_task(found, app.services):
            raise ConflictError(f"task {found} has ended already")
        with app.services.store.read() as view:
            batch_id = view.get_task(found).batch_id
        finish_batch(app, batch_id)
        return Cancelled("task", found, 1)
