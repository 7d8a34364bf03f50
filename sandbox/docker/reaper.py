"""Removes what attempts of this instance left behind: containers of every state, then volumes."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path

from sandbox.docker.engine import Engine, LabelledContainer
from sandbox.docker.removals import AGAIN_SECONDS, Removals
from sandbox.docker.specification import ATTEMPT_LABEL, INSTANCE_LABEL, TASK_LABEL
from sandbox.docker.volumes import VolumeStore
from sandbox.errors import EngineError

FindLive = Callable[[], Collection[tuple[str, int]]]
"""Returns (task id, attempt) of each run whose lease holds."""


def reap(
    find_live: FindLive,
    *,
    engine: Engine,
    removals: Removals,
    volumes: VolumeStore,
    instance_id: str,
    forget: Callable[[Path], object],
) -> int:
    """Remove containers and volumes of this instance that belong to no live attempt.

    Another instance's are never touched; several reapers may work at once.

    Args:
        find_live: whose containers and volumes stay; asked after all have been listed, so that
            what is made meanwhile is never taken for a left-over.
        engine: where the containers are.
        removals: what could not be removed before is tried again.
        volumes: where the volumes are.
        instance_id: whose things to remove.
        forget: told the directory of each volume that was removed.

    Returns:
        How many were removed.

    Raises:
        EngineError: something cannot be removed; everything else was.
    """
    stuck: list[str] = []
    removed = removals.try_again()
    containers = list(engine.find_labelled({INSTANCE_LABEL: instance_id}))
    owners = list(volumes.list_owners())
    live = find_live()
    for container in containers:
        if _attempt_of(container) not in live:
            removed += _try_container(container, engine, stuck)
    for name, owner in owners:
        ours = owner.instance_id == instance_id
        if ours and (owner.task_id, owner.attempt) not in live:
            removed += volumes.remove(name, owner=owner, forget=forget)
    volumes.empty_trash()
    if stuck:
        raise EngineError(f"{len(stuck)} containers cannot be removed: {'; '.join(stuck)}")
    return removed


def _try_container(container: LabelledContainer, engine: Engine, stuck: list[str]) -> int:
    try:
        return int(engine.remove(container.container_id, patience_seconds=AGAIN_SECONDS))
    except EngineError as error:
        stuck.append(f"{container.container_id[:12]} ({error})")
        return 0


def _attempt_of(container: LabelledContainer) -> tuple[str, int] | None:
    attempt = container.label(ATTEMPT_LABEL)
    return (container.label(TASK_LABEL), int(attempt)) if attempt.isdecimal() else None
