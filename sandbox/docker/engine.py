"""A local Docker engine: the few requests that sandboxes need, each with a time limit."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPResponse
from typing import Any

from docker import APIClient
from docker.utils import version_lt

from policies import Json
from sandbox.docker.failures import NotThereError, translated
from sandbox.errors import EngineError, ImageMissingError, UnsupportedError

DEFAULT_URL = "unix:///var/run/docker.sock"

OLDEST_API = "1.41"
"""The first that knows control group namespaces of a container's own."""

_REMOVE_SECONDS = 5.0  # a busy mount keeps an engine from removing; after that we say so
_POLL_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class ImageFacts:
    """What a container's specification needs to know of an image."""

    image_id: str
    volumes: tuple[str, ...]
    """Paths that the image declares as VOLUME."""


@dataclass(frozen=True, slots=True)
class LabelledContainer:
    """A container as a list shows it, in whatever state."""

    container_id: str
    labels: tuple[tuple[str, str], ...]

    def label(self, name: str) -> str:
        """Return a label's value; empty when it has none."""
        return dict(self.labels).get(name, "")


class ExecStream:
    """The connection of one exec: the engine's frames come out, standard input goes in."""

    def __init__(self, response: Any, connection: socket.socket, early: bytes) -> None:
        self._response = response
        self.connection = connection
        """Non-blocking."""
        self.early = early
        """Frames that arrived together with the response's headers."""

    def close(self) -> None:
        """Drop the connection; the process goes on."""
        self._response.close()
        self.connection.close()


class Engine:
    """One engine. Threads may share it: control calls never wait behind a running exec."""

    def __init__(self, *, control: APIClient, streaming: APIClient) -> None:
        self._control = control
        self._streaming = streaming

    def ping(self) -> None:
        """Ask for a sign of life.

        Raises:
            EngineUnavailableError: there is none.
        """
        with translated("give a sign of life"):
            self._control.ping()

    def data_root(self) -> str:
        """Return the folder that the engine keeps containers and images in.

        Raises:
            EngineError: the engine failed.
        """
        with translated("describe itself"):
            found: Mapping[str, Any] = self._control.info()
        return str(found["DockerRootDir"])

    def image_facts(self, reference: str) -> ImageFacts:
        """Look up a local image; nothing is ever pulled.

        Raises:
            ImageMissingError: it is not on the engine.
            EngineError: the engine failed.
        """
        try:
            with translated("look up the image"):
                found = self._control.inspect_image(reference)  # type: ignore[no-untyped-call]  # stubs
        except (NotThereError, ImageMissingError) as error:
            raise ImageMissingError(reference) from error
        volumes = (found.get("Config") or {}).get("Volumes") or {}
        return ImageFacts(str(found["Id"]), tuple(sorted(volumes)))

    def create(self, body: Mapping[str, Json], *, name: str) -> str:
        """Create a container from a request body and return its id.

        Raises:
            ConflictError: the name is taken.
            EngineError, DiskFullError: the engine refused or failed; it may exist all the same.
        """
        with translated("create the container"):
            create = self._control.create_container_from_config
            made = create(dict(body), name)  # type: ignore[no-untyped-call]  # stubs
        return str(made["Id"])

    def start(self, container_id: str) -> None:
        """Start a created container.

        Raises:
            EngineError: it cannot be started; it still exists.
        """
        with translated("start the container"):
            self._control.start(container_id)

    def inspect(self, container_id: str) -> Mapping[str, Any]:
        """Return the engine's own description of a container.

        Raises:
            NotThereError: there is none.
            EngineError: the engine failed.
        """
        with translated("inspect the container"):
            found: Mapping[str, Any] = self._control.inspect_container(container_id)
        return found

    def find_labelled(self, labels: Mapping[str, str]) -> tuple[LabelledContainer, ...]:
        """List containers of every state that carry all the labels.

        Raises:
            EngineError: the engine failed.
        """
        wanted = [f"{name}={value}" for name, value in labels.items()]
        with translated("list containers"):
            found = self._control.containers(all=True, filters={"label": wanted})
        return tuple(
            LabelledContainer(str(one["Id"]), tuple((one.get("Labels") or {}).items()))
            for one in found
        )

    def remove(self, container_id: str, *, patience_seconds: float = _REMOVE_SECONDS) -> bool:
        """Kill and remove a container with its anonymous volumes; return False if it was gone.

        A removal that another caller has begun counts once the container is really gone.

        Raises:
            EngineUnavailableError: the engine does not answer.
            EngineError: it is still there after that time.
        """
        deadline = time.monotonic() + patience_seconds
        while True:
            try:
                with translated("remove the container"):
                    self._control.remove_container(container_id, force=True, v=True)
            except NotThereError:
                return False
            except EngineError:
                if time.monotonic() >= deadline:
                    raise
            else:
                return True
            if not self._exists(container_id):
                return True
            time.sleep(_POLL_SECONDS)

    def pause(self, container_id: str) -> None:
        """Freeze every process of a container.

        Raises:
            EngineError: the engine refused, or the container is not running.
        """
        with translated("pause the container"):
            self._control.pause(container_id)

    def unpause(self, container_id: str) -> None:
        """Let a paused container go on.

        Raises:
            EngineError: the engine refused, or the container is not paused.
        """
        with translated("unpause the container"):
            self._control.unpause(container_id)

    def create_exec(
        self,
        container_id: str,
        argv: tuple[str, ...],
        *,
        user: str,
        cwd: str,
        environment: tuple[tuple[str, str], ...],
        stdin: bool,
    ) -> str:
        """Prepare a command in a running container and return the exec's id.

        Raises:
            NotThereError, ConflictError: the container is gone or not running.
            EngineError: the engine failed.
        """
        with translated("prepare the command"):
            made = self._control.exec_create(
                container_id,
                list(argv),
                user=user,
                stdin=stdin,
                environment=[f"{name}={value}" for name, value in environment],
                workdir=cwd,
            )
        return str(made["Id"])

    def start_exec(self, exec_id: str) -> ExecStream:
        """Start a prepared command and return its connection.

        Raises:
            NotThereError, ConflictError: the container is gone or not running.
            EngineError: the engine failed.
        """
        with translated("start the command"):
            raw: Any = self._streaming.exec_start(exec_id, socket=True)
            # The HTTP reader may hold frames that came in one packet with the headers: the SDK
            # drops them, so we take them out of its buffer.
            response = raw._response  # noqa: SLF001 - the only way to the reader
            reader: HTTPResponse = response.raw._fp.fp  # noqa: SLF001 - as the SDK itself does
            connection: socket.socket = raw._sock  # noqa: SLF001 - selectors need the socket
            connection.setblocking(False)
            early = _drain(reader)
        return ExecStream(response, connection, early)

    def exec_exit_code(self, exec_id: str) -> int | None:
        """Return a command's exit code, or None while it runs.

        Raises:
            NotThereError: the engine forgot it: its container is gone.
            EngineError: the engine failed.
        """
        with translated("inspect the command"):
            found = self._control.exec_inspect(exec_id)
        code = found.get("ExitCode")
        return None if found.get("Running") or code is None else int(code)

    def _exists(self, container_id: str) -> bool:
        try:
            self.inspect(container_id)
        except NotThereError:
            return False
        return True


@contextmanager
def open_engine(
    url: str = DEFAULT_URL, *, streams: int = 64, timeout_seconds: float = 60
) -> Iterator[Engine]:
    """Connect to an engine, agree on an API version, and disconnect at the end.

    Args:
        url: `unix://` or `tcp://` address.
        streams: how many commands may run at once without opening new connections.
        timeout_seconds: how long one request may stay silent; commands have their own limits.

    Raises:
        EngineUnavailableError: nothing answers there.
        UnsupportedError: no API version is known to both sides.
    """
    control = _connect(url, streams=streams, timeout_seconds=timeout_seconds)
    try:
        streaming = _connect(url, streams=streams, timeout_seconds=timeout_seconds)
    except EngineError:
        control.close()
        raise
    try:
        yield Engine(control=control, streaming=streaming)
    finally:
        streaming.close()
        control.close()


def _connect(url: str, *, streams: int, timeout_seconds: float) -> APIClient:
    with translated(f"connect to {url}"):
        version = _agree_on_version(url, timeout_seconds)
        client = APIClient(
            url, version=version, timeout=int(timeout_seconds), max_pool_size=streams
        )
    client.trust_env = False  # a proxy of the environment is not for the engine
    return client


def _agree_on_version(url: str, timeout_seconds: float) -> str:
    """Return the newest API version of the engine: the SDK speaks all that are not too old."""
    asking = APIClient(url, version=OLDEST_API, timeout=int(timeout_seconds))
    asking.trust_env = False
    try:
        found: Mapping[str, Any] = asking.version(api_version=False)
    finally:
        asking.close()
    newest = str(found["ApiVersion"])
    if version_lt(newest, OLDEST_API):
        oldest = found.get("MinAPIVersion") or newest
        raise UnsupportedError(
            f"the engine at {url} speaks API versions {oldest} to {newest}; "
            f"{OLDEST_API} or a newer one is needed (engine 20.10)"
        )
    return newest


def _drain(reader: Any) -> bytes:
    # peek() reads at most once from the non-blocking socket and returns what is buffered.
    return bytes(reader.peek())
