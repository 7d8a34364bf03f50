"""Finds what a person names by any unique beginning of its id."""

from __future__ import annotations

from runner.application.ports.store import StoreReader
from runner.bootstrap import App
from runner.domain.ids import BatchId, TaskId
from runner.errors import NotFoundError, UsageError


def find_batch_id(app: App, prefix: str) -> BatchId:
    """Return the batch with this id or beginning of one; the newest batch for an empty text.

    Raises:
        NotFoundError: there is none.
        UsageError: several begin so.
    """
    with app.services.store.read() as view:
        if prefix:
            return BatchId(_find(view, "batch", prefix, app))
        newest = view.list_batches()[:1]
    if not newest:
        raise NotFoundError("batch", "", place=_name_place(app))
    return newest[0].batch_id


def find_task_id(app: App, prefix: str) -> TaskId:
    """Return the task with this id or beginning of one.

    Raises:
        NotFoundError: there is none.
        UsageError: several begin so.
    """
    with app.services.store.read() as view:
        return TaskId(_find(view, "task", prefix, app))


def _find(view: StoreReader, kind: str, prefix: str, app: App) -> str:
    found = view.find_ids(kind, prefix) if prefix else ()
    if prefix in found:
        return prefix
    if not found:
        raise NotFoundError(kind, prefix, place=_name_place(app))
    if len(found) > 1:
        raise UsageError(f"several {kind} ids begin with {prefix!r}: {', '.join(found)}")
    return found[0]


def _name_place(app: App) -> str:
    """Return what ids belong to: the home, or the store where one is named."""
    if "FORKYARD_STORE" in app.settings.environment:
        return f"{app.settings.store_url} (FORKYARD_STORE)"
    return f"{app.settings.home} (FORKYARD_HOME)"
