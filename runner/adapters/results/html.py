"""report.html: one file without scripts or outside parts, read back from the tasks' own files.

Everything in it comes from agents and repositories, so all of it is escaped, and characters that
reorder or hide text are shown by their code.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import jinja2

from policies import Json
from runner.application.report import INFRASTRUCTURE, BatchReport, TaskReport
from runner.domain.instant import show_instant
from runner.domain.visible import show_text

PATCH_BYTES = 64 * 1024
"""How much of a patch the report shows; the file beside it holds all."""

TIMELINE_STEPS = 200
"""How many tool calls of a task the report shows, the last ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskPage:
    """One task as the template shows it."""

    report: TaskReport
    colour: str
    """good, bad, infrastructure or open."""
    result: dict[str, Json]
    """The task's result.json; empty when it has not been written."""
    timeline: list[Json]
    timeline_left_out: int
    patch: str
    patch_left_out_bytes: int


def render_html(report: BatchReport, folder: Path) -> Iterator[str]:
    """Yield the report; one task's files are in memory at a time.

    Args:
        folder: the batch's folder, with the tasks' files.
    """
    environment = jinja2.Environment(
        autoescape=True,
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(show=show_text, seconds=_seconds, usd=_usd)
    template = environment.get_template("report.html")
    pages = (_make_page(task, folder) for task in report.tasks)
    return template.generate(
        batch=report,
        counts=report.counts_to_json(),
        created=show_instant(report.batch.created_at),
        colour_of=_colour,
        pages=pages,
    )


def _make_page(task: TaskReport, folder: Path) -> TaskPage:
    own = folder / task.task.spec.name
    result = _read_result(own / "result.json")
    patch, left_out = _read_head(own / "changes.patch") if result else ("", 0)
    timeline = result.get("timeline") or []
    steps = list(timeline) if isinstance(timeline, list) else []
    return TaskPage(
        report=task,
        colour=_colour(task),
        result=result,
        timeline=steps[-TIMELINE_STEPS:],
        timeline_left_out=max(0, len(steps) - TIMELINE_STEPS),
        patch=patch,
        patch_left_out_bytes=left_out,
    )


def _colour(task: TaskReport) -> str:
    if task.outcome is None:
        return "open"
    if task.expected:
        return "good"
    return "infrastructure" if task.outcome in INFRASTRUCTURE else "bad"


def _read_result(path: Path) -> dict[str, Json]:
    try:
        loaded = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return loaded if isinstance(loaded, dict) else {}


def _read_head(path: Path) -> tuple[str, int]:
    try:
        with path.open("rb") as stream:
            data = stream.read(PATCH_BYTES)
        left_out = path.stat().st_size - len(data)
    except OSError:
        return "", 0
    return data.decode("utf-8", "backslashreplace"), max(0, left_out)


def _seconds(milliseconds: int) -> str:
    return f"{milliseconds / 1000:.1f} s"


def _usd(micro_usd: int) -> str:
    # what no provider has reported is not called zero
    return f"${micro_usd / 1_000_000:.4f}" if micro_usd else "-"
