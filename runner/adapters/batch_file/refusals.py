"""What the format knows and this release does not do: refused by name, never ignored."""

from __future__ import annotations

from collections.abc import Iterator

from runner.adapters.batch_file.document import Document, Path
from runner.adapters.batch_file.entries import BatchEntry, SharedEntry
from runner.domain.task import AgentKind
from runner.errors import BatchFileError

_LATER = "is not in this release"
_KINDS = frozenset({AgentKind.MODEL.value, AgentKind.COMMAND.value})


def list_refusals(document: Document, batch: BatchEntry) -> list[BatchFileError]:
    """Return an error for each feature that the file asks for and that is refused."""
    scopes: list[tuple[Path, SharedEntry]] = [
        (("tasks", index), task) for index, task in enumerate(batch.tasks)
    ]
    if batch.defaults is not None:
        scopes.insert(0, (("defaults",), batch.defaults))
    return [
        document.problem(text, (*scope, *path))
        for scope, entry in scopes
        for path, text in _refused_in(entry)
    ]


def _refused_in(entry: SharedEntry) -> Iterator[tuple[Path, str]]:
    if entry.race is not None:
        yield ("race",), f"{_LATER}; write the task several times under different ids"
    if entry.agent is not None and entry.agent.kind in _KINDS:
        yield ("agent", "kind"), f"agent kind {entry.agent.kind} {_LATER}; use kind scripted"
