"""Write what ended tasks and their batch have come to into the folder of results."""

from __future__ import annotations

from runner.application.describe_task import describe_batch, describe_task
from runner.application.ports.results import ResultsWriter, TaskResults
from runner.application.report import TaskReport
from runner.application.services import Services
from runner.application.timeline import make_timeline
from runner.domain.ids import BatchId, TaskId
from runner.domain.rollout import export_lines
from sandbox import PatchTooLargeError


def write_task_results(task_id: TaskId, services: Services, results: ResultsWriter) -> None:
    """Write the files of a task whose last run has ended; done twice it changes nothing.

    Raises:
        ResultsError: the folder cannot be written.
        SandboxError: the snapshot cannot be read. A patch that is too large is no error: the
            results say so.
        DamagedRolloutError: the session's items are not what was written.
    """
    with services.store.read() as view:
        task = view.get_task(task_id)
        batch = view.get_batch(task.batch_id)
    if results.has_task(batch.results_dir, task.spec.name):
        return
    report = describe_task(task_id, services)
    with services.store.read() as view:
        items = view.list_items(report.task.session_id)
        verified = report.run.verify_after
        log = view.get_evidence(verified.log) if verified and verified.log else b""
        setup_log = view.get_evidence(report.setup.log) if report.setup else None
    patch, problem = _make_patch(report, services)
    results.write_task(
        batch.results_dir,
        TaskResults(
            report=report,
            timeline=make_timeline(items),
            patch=patch,
            patch_problem=problem,
            rollout=export_lines(items),
            verify_log=log,
            setup_log=setup_log,
        ),
    )


def _make_patch(report: TaskReport, services: Services) -> tuple[bytes, str]:
    if report.files is None:
        return b"", ""
    try:
        return services.host.make_patch(report.files.snapshot), ""
    except PatchTooLargeError as error:
        return b"", str(error)


def write_batch_results(batch_id: BatchId, services: Services, results: ResultsWriter) -> None:
    """Write the batch's own files as it stands now.

    Raises:
        ResultsError: the folder cannot be written.
    """
    results.write_batch(describe_batch(batch_id, services))
