"""Bring what a task has changed into the user's repository, as a branch or into the files."""

from __future__ import annotations

from dataclasses import dataclass

from policies import FlaggedPath
from runner.application.describe_task import describe_task
from runner.application.report import TaskFiles
from runner.application.services import Services
from runner.domain.ids import TaskId
from runner.domain.records import Task
from runner.errors import ConflictError, FlaggedPathsError, UsageError
from sandbox import CommitId, SourceKind

WORDS = {
    SourceKind.PATH: "a path",
    SourceKind.URL: "a URL",
    SourceKind.ARCHIVE: "an archive",
}


@dataclass(frozen=True, slots=True)
class MadeBranch:
    """One new commit in the user's repository."""

    commit: CommitId
    flagged: tuple[FlaggedPath, ...]


@dataclass(frozen=True, slots=True)
class WrittenCheckout:
    """Files of the user's that were changed."""

    location: str
    paths: tuple[bytes, ...]
    flagged: tuple[FlaggedPath, ...]


def apply_to_branch(task_id: TaskId, services: Services, *, branch: str) -> MadeBranch:
    """Make a branch with one commit on the task's base; the user's checkout stays untouched.

    Raises:
        NotFoundError: there is no such task.
        UsageError: the source is no repository of this host.
        ConflictError: nothing was changed.
        BranchExistsError: there is a branch of that name.
        SourceError: the repository cannot be written, or the name is no branch name.
    """
    task, files = _find_changes(task_id, services)
    message = f"{task.spec.name}: {task.spec.goal}\n\nForkyard task {task_id}"
    commit = services.host.export_branch(
        files.snapshot, task.spec.repo.location, branch=branch, message=message
    )
    return MadeBranch(commit, files.flagged)


def apply_to_checkout(
    task_id: TaskId, services: Services, *, accept_flagged: bool
) -> WrittenCheckout:
    """Write a task's changes into the user's checkout, all or none; index and refs stay.

    Args:
        accept_flagged: also files that the user's own tools execute or obey.

    Raises:
        NotFoundError: there is no such task.
        UsageError: the source is no repository of this host.
        ConflictError: nothing was changed.
        FlaggedPathsError: there are such files, and they were not accepted.
        CheckoutConflictError: something of the user's would be lost.
        SourceError: there is no checkout, or it cannot be written.
    """
    task, files = _find_changes(task_id, services)
    if files.flagged and not accept_flagged:
        raise FlaggedPathsError(files.flagged)
    location = task.spec.repo.location
    paths = services.host.apply_to_checkout(files.snapshot, location)
    return WrittenCheckout(location, paths, files.flagged)


def _find_changes(task_id: TaskId, services: Services) -> tuple[Task, TaskFiles]:
    report = describe_task(task_id, services)
    kind = report.task.spec.repo.kind
    if kind != SourceKind.PATH.value:
        source = WORDS[SourceKind(kind)]
        raise UsageError(
            f"task {task_id} came from {source}; apply its changes.patch with `git apply`"
        )
    if report.files is None or all(one.ignored for one in report.files.changes.items):
        raise ConflictError(f"task {task_id} has changed nothing that a patch holds")
    return report.task, report.files
