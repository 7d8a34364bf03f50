"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

from runner.errors import ResultsError


def write_whole(path: Path, chunks: Iterable[bytes]) -> None:
    """Write a file beside its place, sync it, and rename it there.

    Raises:
        ResultsError: the folder cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(prefix=".writing-", dir=path.parent)
        temporary = Path(name)
        try:
            _fill(descriptor, chunks)
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
        _sync_folder(path.parent)
    except OSError as error:
        raise ResultsError(str(path), error.strerror or str(error)) from error


def probe_folder(folder: Path) -> None:
    """Make a folder where it is missing, and write and remove a file in it.

    Raises:
        ResultsError: that cannot be done.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(prefix=".probing-", dir=folder) as probe:
            probe.write(b"\n")
    except OSError as error:
        problem = f"{error.strerror or error}; name a folder that can be written with --results"
        raise ResultsError(str(folder), problem) from error


def point_link(link: Path, target: str) -> None:
    """Make a symbolic link point at a target, replacing a former link in one step.

    Raises:
        ResultsError: the folder cannot be written, or something else has the link's name.
    """
    if link.exists() and not link.is_symlink():
        raise ResultsError(str(link), "is not a link of ours; move it away")
    try:
        with tempfile.TemporaryDirectory(prefix=".linking-", dir=link.parent) as folder:
            temporary = Path(folder) / link.name
            temporary.symlink_to(target)
            temporary.replace(link)
    except OSError as error:
        raise ResultsError(str(link), error.strerror or str(error)) from error


def _fill(descriptor: int, chunks: Iterable[bytes]) -> None:
    with os.fdopen(descriptor, "wb") as stream:
        os.fchmod(descriptor, 0o644)
        for chunk in chunks:
            stream.write(chunk)
        stream.flush()
        os.fsync(descriptor)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
