"""Removes what attempts of this instance left behind: containers of every state, then volumes."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from sandbox.docker.engine import Engine, LabelledContainer
from sandbox.docker.specification import ATTEMPT_LABEL, INSTANCE_LABEL, TASK_LABEL
from sandbox.docker.volumes import VolumeStore
from sandbox.errors import EngineError

Live = AbstractSet[tuple[str, int]]
"""(task id, attempt) of each run whose lease holds."""


def reap(live: Live, *, engine: Engine, volumes: VolumeStore, instance_id: str) -> int:
    """Remove containers and volumes of this instance that belong to no live attempt.

    Another instance's are never touched; several reapers may work at once.

    Returns:
        How many were removed.

    Raises:
        EngineError: something cannot be removed; everything else was.
    """
    stuck: list[str] = []
    removed = 0
    for container in engine.find_labelled({INSTANCE_LABEL: instance_id}):
        if _attempt_of(container) not in live:
            removed += _try_container(container, engine, stuck)
    for name, owner in volumes.list_owners():
        ours = owner.instance_id == instance_id
        if ours and (owner.task_id, owner.attempt) not in live:
            removed += volumes.remove(name, owner=owner)
    volumes.empty_trash()
    if stuck:
        raise EngineError(f"{len(stuck)} containers cannot be removed: {'; '.join(stuck)}")
    return removed


def _try_container(container: LabelledContainer, engine: Engine, stuck: list[str]) -> int:
    try:
        return int(engine.remove(container.container_id))
    except EngineError as error:
        stuck.append(f"{container.container_id[:12]} ({error})")
        return 0


def _attempt_of(container: LabelledContainer) -> tuple[str, int] | None:
    attempt = container.label(ATTEMPT_LABEL)
    return (container.label(TASK_LABEL), int(attempt)) if attempt.isdecimal() else None
