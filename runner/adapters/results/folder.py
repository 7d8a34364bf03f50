"""The folder of results on this host's disk.

`<results>/<batch name>/<batch id>/<task>/result.json` is written last of a task's four files:
where it stands, the task is complete and is never touched again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from policies import Json, show_path
from runner.adapters.results.files import point_link, probe_folder, write_whole
from runner.adapters.results.html import render_html
from runner.adapters.results.junit import render_junit
from runner.application.ports.results import TaskResults
from runner.application.report import BatchReport
from runner.domain.instant import show_instant

MARKER = "result.json"


class FolderResultsWriter:
    """Implements ResultsWriter."""

    def probe(self, results: str) -> None:
        """Make the folder and prove that it can be written; see the port."""
        probe_folder(Path(results))

    def has_task(self, results_dir: str, name: str) -> bool:
        """Tell whether the files of a task are complete."""
        return (Path(results_dir) / name / MARKER).exists()

    def write_task(self, results_dir: str, results: TaskResults) -> None:
        """Write an ended task's files: four, and the log of its setup; see the port."""
        name = results.report.task.spec.name
        if self.has_task(results_dir, name):
            return
        folder = Path(results_dir) / name
        if not results.patch_problem:
            write_whole(folder / "changes.patch", [results.patch])
        write_whole(folder / "rollout.jsonl", [results.rollout])
        write_whole(folder / "verify.log", [results.verify_log])
        if results.setup_log is not None:
            write_whole(folder / "setup.log", [results.setup_log])
        write_whole(folder / MARKER, [_show_json(_result_json(results))])

    def write_batch(self, report: BatchReport) -> None:
        """Write report.json, junit.xml, report.html and `latest`; see the port."""
        folder = Path(report.batch.results_dir)
        write_whole(folder / "report.json", [_show_json(_report_json(report))])
        write_whole(folder / "junit.xml", [render_junit(report)])
        write_whole(folder / "report.html", _encode(render_html(report, folder)))
        latest = folder.parent / "latest"
        if _read_created(latest) <= show_instant(report.batch.created_at):
            point_link(latest, folder.name)


def _read_created(folder: Path) -> str:
    """Return when the batch of a folder was submitted; empty where that cannot be read."""
    try:
        report = json.loads((folder / "report.json").read_bytes())
    except (OSError, ValueError):
        return ""
    return str(report.get("created_at", "")) if isinstance(report, dict) else ""


def _encode(parts: Iterator[str]) -> Iterator[bytes]:
    for part in parts:
        yield part.encode("utf-8", "backslashreplace")


def _show_json(value: Json) -> bytes:
    return (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode(
        "utf-8", "backslashreplace"
    )


def _result_json(results: TaskResults) -> Json:
    files = results.report.files
    return {
        **results.report.to_json(),
        "files": []
        if files is None
        else [
            {"path": show_path(one.path), "kind": one.kind.value, "ignored": one.ignored}
            for one in files.changes.items
        ],
        "patch_bytes": None if results.patch_problem else len(results.patch),
        "patch_problem": results.patch_problem,
        "timeline": [step.to_json() for step in results.timeline],
    }


def _report_json(report: BatchReport) -> Json:
    tasks = [task.to_json() for task in report.tasks]
    return {**report.to_json(), "tasks": tasks}
