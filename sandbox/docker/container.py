"""A running container: created from its specification, asserted, started, always removed."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from policies import Json
from sandbox.docker.control_group import ControlGroup, find_control_group
from sandbox.docker.engine import Engine
from sandbox.docker.failures import ConflictError, NotThereError
from sandbox.docker.processes import Freezer, Processes, open_processes
from sandbox.docker.removals import Removals
from sandbox.docker.specification import (
    ContainerPlace,
    list_drift,
    make_create_body,
    make_labels,
    make_name,
)
from sandbox.errors import EngineError, SandboxError, SandboxLostError
from sandbox.sandbox import SandboxSpec

_TOKEN_BYTES = 3
_UNPAUSE_SECONDS = 2.0
_POLL_SECONDS = 0.01
_NAMES = 3  # how many are tried where one is taken


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """A container that runs and in which only its two residents live."""

    container_id: str
    user: str
    """uid and gid that commands run as."""
    group: ControlGroup
    processes: Processes


@contextmanager
def open_container(
    spec: SandboxSpec,
    place: ContainerPlace,
    *,
    engine: Engine,
    removals: Removals | None = None,
) -> Iterator[Container]:
    """Create, check and start a container; remove it at the end.

    Args:
        spec: what it is made from.
        place: what the host adds.
        engine: where it is made.
        removals: keeps what cannot be removed at the end; without it nobody tries again.

    Raises:
        UnsupportedError: before anything is made.
        EngineError, SandboxLostError: it cannot be made or is not as asked for; none is left.
    """
    body = make_create_body(spec, place)
    removals = removals or Removals(engine)
    container_id = _create(body, spec, place, engine=engine, removals=removals)
    try:
        init_pid = _start(container_id, body, engine=engine)
        group = find_control_group(init_pid)
        freezer: Freezer = group if group.may_freeze() else EnginePause(engine, container_id)
        with open_processes(group, freezer, init_pid=init_pid) as processes:
            yield Container(
                container_id=container_id,
                user=f"{place.uid}:{place.gid}",
                group=group,
                processes=processes,
            )
    finally:
        removals.remove(container_id)


class EnginePause:
    """Freezes a container through the engine, where we may not write its control group."""

    def __init__(self, engine: Engine, container_id: str) -> None:
        self._engine = engine
        self._container_id = container_id

    def freeze(self) -> None:
        """Stop every process.

        Raises:
            SandboxLostError: the container is not running.
        """
        try:
            self._engine.pause(self._container_id)
        except (NotThereError, ConflictError) as error:
            raise SandboxLostError("the container is not running") from error

    def thaw(self) -> None:
        """Let them go on; nothing happens when they are not paused."""
        with suppress(NotThereError, ConflictError):
            self._engine.unpause(self._container_id)
            self._await_running()

    def _await_running(self) -> None:
        """Wait until the engine knows: the event of the pause may reach it after the unpause."""
        deadline = time.monotonic() + _UNPAUSE_SECONDS
        while self._engine.inspect(self._container_id)["State"]["Paused"]:
            if time.monotonic() >= deadline:
                return  # a command will be refused, and the sandbox replaced
            time.sleep(_POLL_SECONDS)


def _create(
    body: Mapping[str, Json],
    spec: SandboxSpec,
    place: ContainerPlace,
    *,
    engine: Engine,
    removals: Removals,
) -> str:
    """Create a container under a free name and return its id."""
    for names_left in reversed(range(_NAMES)):
        token = secrets.token_hex(_TOKEN_BYTES)
        name = make_name(spec, instance_id=place.instance_id, token=token)
        try:
            return engine.create(body, name=name)
        except ConflictError:
            # Somebody has the name: whatever it is, it is not what we have just asked for.
            if not names_left:
                raise
        except SandboxError:
            # The answer may be lost while the container was made.
            removals.remove_half_made(name, make_labels(spec, instance_id=place.instance_id))
            raise
    raise AssertionError("the last conflict is raised")


def _start(container_id: str, body: Mapping[str, Json], *, engine: Engine) -> int:
    """Start a container that is as asked for and return its init's id on the host."""
    drift = list_drift(body, engine.inspect(container_id))
    if drift:
        raise EngineError(f"the engine made another container: {'; '.join(drift)}")
    engine.start(container_id)
    init_pid = int(engine.inspect(container_id)["State"]["Pid"])
    if init_pid <= 0:
        raise SandboxLostError("the container ended as soon as it was started")
    return init_pid
