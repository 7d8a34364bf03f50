"""Lays a task over the defaults.

Per key the task wins. `budget` and `verify` are merged key by key, `repo` as well, except that a
task that names a path, url or archive drops the default's. `agent`, `image`, `policy` and
`setup` are replaced whole. `constraints` add up, the defaults' first: a demand is never lost by
adding one.
"""

from __future__ import annotations

from typing import TypeVar

from runner.adapters.batch_file.entries import (
    BudgetEntry,
    Entry,
    RepositoryEntry,
    SharedEntry,
    TaskEntry,
)

_LOCATIONS = frozenset({"path", "url", "archive"})
_Merged = TypeVar("_Merged", bound=Entry)


def merge_task(defaults: SharedEntry, task: TaskEntry) -> TaskEntry:
    """Return the task with everything that only the defaults say."""
    inherited = {name: getattr(defaults, name) for name in SharedEntry.model_fields}
    own = {name: getattr(task, name) for name in task.model_fields_set}
    together = {
        "budget": _overlay(defaults.budget, task.budget, BudgetEntry()),
        "verify": _overlay(defaults.verify, task.verify, None),
        "repo": _overlay_repo(defaults.repo, task.repo),
        "constraints": (defaults.constraints or ()) + (task.constraints or ()),
    }
    return task.model_copy(update={**inherited, **own, **together})


def _overlay(
    below: _Merged | None, above: _Merged | None, empty: _Merged | None
) -> _Merged | None:
    if below is None or above is None:
        return above or below or empty
    return below.model_copy(update={name: getattr(above, name) for name in above.model_fields_set})


def _overlay_repo(
    below: RepositoryEntry | None, above: RepositoryEntry | None
) -> RepositoryEntry | None:
    if below is not None and above is not None and _LOCATIONS & above.model_fields_set:
        below = below.model_copy(update=dict.fromkeys(_LOCATIONS))
    return _overlay(below, above, None)
