"""Removes containers for good, also those that the engine did not remove when it was asked to.

What a stuck mount or a dead engine keeps is put aside: the task that it belonged to goes on, the
log names it, and every later reap tries it again. A process that dies forgets nothing either: the
labels say whose a container is.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import suppress

import structlog

from policies import Json
from sandbox.docker.engine import Engine
from sandbox.docker.failures import NotThereError
from sandbox.errors import EngineError, EngineUnavailableError

Labels = Mapping[str, Json]

log = structlog.get_logger(__name__)

AGAIN_SECONDS = 1.0
"""How long one container that was put aside may hold up a reap."""


class Removals:
    """What is to be removed of one engine. Thread-safe."""

    def __init__(self, engine: Engine) -> None:
        """Begin with nothing put aside."""
        self._engine = engine
        self._aside: dict[str, Labels | None] = {}
        self._lock = threading.Lock()

    @property
    def put_aside(self) -> tuple[str, ...]:
        """Ids or names of the containers that may still be there."""
        with self._lock:
            return tuple(self._aside)

    def remove(self, container_id: str) -> None:
        """Remove a container of ours, or put it aside where the engine fails."""
        try:
            self._engine.remove(container_id)
        except EngineError as error:
            self._put_aside(container_id, None)
            log.warning("container.put_aside", container=container_id, problem=str(error))

    def remove_half_made(self, name: str, labels: Labels) -> None:
        """Remove what an unanswered request may have made, now and once more later.

        Args:
            name: that it was to get; somebody else's container of that name stays.
            labels: what ours has and no other.
        """
        self._put_aside(name, labels)
        with suppress(EngineError):
            self._remove_named(name, labels)

    def try_again(self) -> int:
        """Remove what was put aside, as far as that is possible now; return how many were.

        Raises:
            EngineUnavailableError: the engine does not answer.
        """
        with self._lock:
            aside = dict(self._aside)
        return sum(self._try_again(container, labels) for container, labels in aside.items())

    def _try_again(self, container: str, labels: Labels | None) -> bool:
        try:
            if labels is None:
                removed = self._engine.remove(container, patience_seconds=AGAIN_SECONDS)
            else:
                removed = self._remove_named(container, labels)
        except EngineUnavailableError:
            raise
        except EngineError as error:
            log.warning("container.stuck", container=container, problem=str(error))
            return False
        with self._lock:
            self._aside.pop(container, None)
        return removed

    def _put_aside(self, container: str, labels: Labels | None) -> None:
        with self._lock:
            self._aside[container] = labels

    def _remove_named(self, name: str, labels: Labels) -> bool:
        try:
            found = self._engine.inspect(name)
        except NotThereError:
            return False
        own = found["Config"]["Labels"] or {}
        if any(own.get(key) != value for key, value in labels.items()):
            return False
        return self._engine.remove(str(found["Id"]), patience_seconds=AGAIN_SECONDS)
