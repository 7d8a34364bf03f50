"""`forkyard rollout …`."""

from __future__ import annotations

import click

from runner.application.verify_rollout import verify_rollout
from runner.bootstrap import App
from runner.domain.items import RolloutItem
from runner.domain.rollout import export_lines
from runner.entrypoints.answers import Answer, Exported, Proof, TaskLog
from runner.entrypoints.context import Context, pass_context
from runner.entrypoints.find_id import find_task_id
from runner.entrypoints.options import json_option


@click.group()
def rollout() -> None:
    """Read, export and prove the history of a task."""


@rollout.command()
@click.argument("task_id", metavar="TASK")
@click.option("--jsonl", is_flag=True, help="Print the items' own lines.")
@json_option
@pass_context
def show(context: Context, task_id: str, jsonl: bool) -> Answer:  # noqa: FBT001  click passes flags by name
    """Show a task's history in order."""
    with context.open() as app:
        name, items = _read(app, task_id)
        return Exported(export_lines(items)) if jsonl else TaskLog(name, items)


@rollout.command()
@click.argument("task_id", metavar="TASK")
@json_option
@pass_context
def export(context: Context, task_id: str) -> Answer:
    """Print a task's history as JSONL, one item a line."""
    with context.open() as app:
        return Exported(export_lines(_read(app, task_id)[1]))


@rollout.command()
@click.argument("task_id", metavar="TASK")
@json_option
@pass_context
def verify(context: Context, task_id: str) -> Answer:
    """Prove that a history is whole and that every request can be built again from it."""
    with context.open() as app:
        found = find_task_id(app, task_id)
        return Proof(found, verify_rollout(found, app.services))


def _read(app: App, task_id: str) -> tuple[str, tuple[RolloutItem, ...]]:
    with app.services.store.read() as view:
        task = view.get_task(find_task_id(app, task_id))
        return task.task_id, tuple(view.list_items(task.session_id))
