"""Doubles of this package's ports, for tests."""

from __future__ import annotations

import hashlib
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import IO

from sandbox.errors import EngineError


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltImage:
    """One build that the double was asked for."""

    reference: str
    labels: tuple[tuple[str, str], ...]
    members: tuple[str, ...]
    """Names in the context, as sent."""


class MemoryImageEngine:
    """Keeps images by reference; a Dockerfile with the line `RUN false` fails."""

    def __init__(self, *references: str) -> None:
        self._images = {reference: _make_id(reference.encode()) for reference in references}
        self.built: list[BuiltImage] = []
        """What was built, in order."""

    def find_image(self, reference: str) -> str | None:
        """Return the id of a known image, by reference or id; see ImageEngine."""
        known = reference in self._images.values()
        return reference if known else self._images.get(reference)

    def build_image(
        self, context: IO[bytes], *, reference: str, labels: Mapping[str, str]
    ) -> Iterator[str]:
        """Read the context and remember the image; see ImageEngine."""
        data = context.read()
        context.seek(0)
        with tarfile.open(fileobj=context) as archive:
            members = tuple(archive.getnames())
            dockerfile = archive.extractfile("Dockerfile")
            lines = dockerfile.read().decode().splitlines() if dockerfile else []
        for number, line in enumerate(lines, start=1):
            yield f"Step {number}/{len(lines)} : {line}"
            if line == "RUN false":
                raise EngineError(f"building {reference!r} failed:\n{line}")
        self._images[reference] = _make_id(data)
        kept = tuple(sorted(labels.items()))
        self.built.append(BuiltImage(reference=reference, labels=kept, members=members))


def _make_id(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"
