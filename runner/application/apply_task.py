"""Make a branch in the user's repository from what a task has changed."""

from __future__ import annotations

from runner.application.describe_task import describe_task
from runner.application.services import Services
from runner.domain.ids import TaskId
from runner.errors import ConflictError, UsageError
from sandbox import SourceKind


def apply_task(task_id: TaskId, services: Services, *, branch: str) -> str:
    """Make a branch with one commit on the task's base; the user's checkout stays untouched.

    Returns:
        The id of the new commit.

    Raises:
        NotFoundError: there is no such task.
        UsageError: the source is no repository of this host.
        ConflictError: nothing was changed.
        BranchExistsError: there is a branch of that name.
        SourceError: the repository cannot be written, or the name is no branch name.
    """
    report = describe_task(task_id, services)
    repo = report.task.spec.repo
    if repo.kind != SourceKind.PATH.value:
        raise UsageError(
            f"task {task_id} came from a {repo.kind}; apply its changes.patch with `git apply`"
        )
    if report.files is None or not report.files.changes.items:
        raise ConflictError(f"task {task_id} has changed nothing")
    message = f"{report.task.spec.name}: {report.task.spec.goal}\n\nForkyard task {task_id}"
    return services.host.export_branch(
        report.files.snapshot, repo.location, branch=branch, message=message
    )
