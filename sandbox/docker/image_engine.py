"""The part of an engine that images need: find one, build one. Nothing here can pull."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import IO, Any, Protocol

from docker import APIClient

from sandbox.docker.failures import NotThereError, translated
from sandbox.errors import EngineError, ImageMissingError

DEFAULT_URL = "unix:///var/run/docker.sock"

_SHOWN_LINES = 20  # of a failed build's output, in the error


class ImageEngine(Protocol):
    """An engine's image store."""

    def find_image(self, reference: str) -> str | None:
        """Return the id (`sha256:…`) of a local image, or None if it is not there.

        Raises:
            EngineError: the engine does not answer or fails.
        """
        ...

    def build_image(
        self, context: IO[bytes], *, reference: str, labels: Mapping[str, str]
    ) -> Iterator[str]:
        """Build a tar archive with a Dockerfile; yield the builder's output line by line.

        Raises:
            EngineError: a step failed; the message ends with the last lines of its output.
        """
        ...


class DockerImageEngine:
    """Images of a Docker engine, built with the builder that needs no plug-in."""

    def __init__(self, client: APIClient) -> None:
        self._client = client

    def find_image(self, reference: str) -> str | None:
        """Return the id of a local image, or None; see ImageEngine."""
        try:
            with translated("look up the image"):
                found: Mapping[str, Any] = self._client.inspect_image(reference)  # type: ignore[no-untyped-call]  # the stubs leave it out
                return str(found["Id"])
        except (NotThereError, ImageMissingError):
            return None

    def build_image(
        self, context: IO[bytes], *, reference: str, labels: Mapping[str, str]
    ) -> Iterator[str]:
        """Build a tar archive; see ImageEngine."""
        with translated("build the image"):
            events = self._client.build(
                fileobj=context,
                custom_context=True,
                tag=reference,
                labels=dict(labels),
                rm=True,
                forcerm=True,
                pull=False,
                decode=True,
                timeout=None,  # a step may be silent for minutes
            )
            yield from _read_events(events, reference)


@contextmanager
def open_image_engine(url: str = DEFAULT_URL) -> Iterator[DockerImageEngine]:
    """Connect to an engine and disconnect at the end.

    Raises:
        EngineUnavailableError: nothing answers there.
        UnsupportedError: no API version is known to both sides.
    """
    with translated(f"connect to {url}"):
        client = APIClient(url, version="auto")
    client.trust_env = False  # a proxy of the environment is not for the engine
    try:
        yield DockerImageEngine(client)
    finally:
        client.close()


def _read_events(events: Iterable[Mapping[str, Any]], reference: str) -> Iterator[str]:
    last: deque[str] = deque(maxlen=_SHOWN_LINES)
    for event in events:
        if "error" in event:
            shown = "\n".join([*last, str(event["error"]).strip()])
            raise EngineError(f"building {reference!r} failed:\n{shown}")
        for line in str(event.get("stream", "")).splitlines():
            if line.strip():
                last.append(line)
                yield line
