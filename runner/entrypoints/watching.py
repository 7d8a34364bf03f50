"""Follows a batch through the store while other processes work on it."""

from __future__ import annotations

from runner.application.attended import is_unattended
from runner.application.describe_task import BatchFollower
from runner.application.ports.store import StoreReader
from runner.application.report import NEEDS_A_PERSON, TaskReport
from runner.bootstrap import App
from runner.domain.ids import BatchId, TaskId
from runner.domain.items import AssistantMessage
from runner.domain.outcome import RunState
from runner.entrypoints.answers import BatchEnded
from runner.entrypoints.context import Context
from runner.entrypoints.progress import Progress, make_progress
from runner.entrypoints.render import say_unattended
from runner.entrypoints.working import suspend_on_signals

LOOK_SECONDS = 0.5
"""How often the store is read."""

UNATTENDED_LOOKS = 4
"""So often in a row nobody has to work on a batch before it is said: a process may just begin."""


def watch(app: App, context: Context, batch_id: BatchId) -> BatchEnded:
    """Return when every task has ended or only a person can go on, or on a signal.

    Where no live process works on the batch, that is said once.

    Raises:
        NotFoundError: there is no such batch.
    """
    look = BatchFollower(batch_id, app.services).look
    told: set[TaskId] = set()
    progress = make_progress(context.console, app.services.clock, look=look)
    with suspend_on_signals() as stop, progress:
        report = look()
        unattended = 0
        while not stop.is_set():
            with app.services.store.read() as view:
                for task in report.tasks:
                    _tell(view, task, progress, told)
            if all(one.state.terminal or one.state in NEEDS_A_PERSON for one in report.tasks):
                break
            unattended = unattended + 1 if is_unattended(report, app.services) else 0
            if unattended == UNATTENDED_LOOKS:
                context.say(say_unattended(report))
            stop.wait(LOOK_SECONDS)
            report = look()
    return BatchEnded(
        report=report,
        interrupted=stop.is_set(),
        watched=True,
        unattended=is_unattended(report, app.services),
    )


def _tell(view: StoreReader, task: TaskReport, progress: Progress, told: set[TaskId]) -> None:
    if task.state.terminal and task.task.task_id not in told:
        told.add(task.task.task_id)
        progress.ended(task)
    elif task.state is RunState.RUNNING:
        progress.tell(task.task, _last_action(view, task))


def _last_action(view: StoreReader, task: TaskReport) -> str:
    """Return the tool that a task's last message asks for, in a word."""
    length, _ = view.count_items(task.task.session_id)
    items = view.list_items(task.task.session_id, after=max(0, length - 1))
    payload = items[-1].payload if items else None
    if isinstance(payload, AssistantMessage) and payload.calls:
        return payload.calls[0].name
    return "working"
