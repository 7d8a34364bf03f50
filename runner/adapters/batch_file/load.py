"""Reads a batch file into a batch that can be stored: all of it is right, or nothing is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from runner.adapters.batch_file.document import Document, parse_document
from runner.adapters.batch_file.entries import BatchBudgetEntry, BatchEntry, SharedEntry
from runner.adapters.batch_file.faults import join_faults, list_empty_fields, list_faults
from runner.adapters.batch_file.policy_source import PolicySource
from runner.adapters.batch_file.reading import read_document
from runner.adapters.batch_file.refusals import list_refusals
from runner.adapters.batch_file.tasks import TaskReader
from runner.domain.outcome import Outcome
from runner.domain.task import BatchBudget, BatchSpec, TaskSpec
from runner.errors import BatchFileError

RESERVED_NAMES = frozenset({"latest", "report.html", "report.json", "junit.xml"})
"""Names that results already use (adapters/results)."""


def load_batch_file(path: Path, *, policies: PolicySource) -> BatchSpec:
    """Read a batch file with every file that it names.

    Locations are absolute in the result, scripts and policies embedded.

    Raises:
        BatchFileError: the file or one that it names cannot be used; it carries all problems of
            the first stage (text, then structure, then meaning) that found any.
    """
    return _read_spec(read_document(path.expanduser().resolve()), policies=policies)


def load_batch_text(text: str, *, file: Path, policies: PolicySource) -> BatchSpec:
    """Read the text of a batch file that is not on disk.

    Args:
        file: absolute path that errors name and paths are relative to.

    Raises:
        BatchFileError: as load_batch_file.
    """
    return _read_spec(parse_document(text, file=str(file)), policies=policies)


def _read_spec(document: Document, *, policies: PolicySource) -> BatchSpec:
    faults = [
        *document.problems,
        *list_empty_fields(document),
        *list_faults(document, BatchEntry),
    ]
    if faults:
        raise join_faults(faults)
    return _make_spec(document, BatchEntry.model_validate(document.value), policies=policies)


def _make_spec(document: Document, entry: BatchEntry, *, policies: PolicySource) -> BatchSpec:
    faults = [*list_refusals(document, entry), *_name_faults(document, entry)]
    reader = TaskReader(document=document, policies=policies, faults=faults)
    defaults = entry.defaults or SharedEntry()
    tasks: list[TaskSpec] = []
    for index, task in enumerate(entry.tasks):
        spec = reader.read(index, defaults, task)
        if spec is not None:
            tasks.append(spec)
    if faults:
        raise join_faults(faults)
    return BatchSpec(
        name=entry.name,
        file=document.file,
        budget=_make_budget(entry.budget or BatchBudgetEntry()),
        retries={Outcome(name): count for name, count in (entry.retries or {}).items()},
        tasks=tuple(tasks),
    )


def _make_budget(entry: BatchBudgetEntry) -> BatchBudget:
    given = entry.model_dump(exclude_none=True)
    if "cost_usd" in given:
        given["cost_micro_usd"] = given.pop("cost_usd")
    return BatchBudget(**given)


def _name_faults(document: Document, entry: BatchEntry) -> Iterator[BatchFileError]:
    seen: dict[str, tuple[str | int, ...]] = {}
    for index, task in enumerate(entry.tasks):
        path = ("tasks", index, "id")
        folded = task.id.casefold()
        if folded in RESERVED_NAMES:
            yield document.problem(f"{task.id!r} is a name that results use; take another", path)
        if folded in seen:
            line, _ = document.locate(seen[folded])
            text = f"{task.id!r} is also the id of the task on line {line}; ids are unique"
            yield document.problem(text, path)
        seen.setdefault(folded, path)
