"""The folder in which `doctor` makes its probe containers' files; it goes when the probes end."""

from __future__ import annotations

import fcntl
import io
import os
import shutil
import tarfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from runner.errors import ConflictError, MissingError

_NAME = "doctor"
_PRIVATE = 0o700
_README = b"Nothing here: the probes of `forkyard doctor` start from this.\n"


@dataclass(frozen=True, slots=True)
class ProbeFolder:
    """A folder that is ours alone."""

    path: Path
    archive: Path
    """What probe containers start from."""


@contextmanager
def open_probe_folder(home: Path) -> Iterator[ProbeFolder]:
    """Make the folder below a home, or take over what a killed process left; remove it at the end.

    Raises:
        ConflictError: another process is at it.
        MissingError: it cannot be made or removed.
    """
    had_home = home.exists()
    path = home / _NAME
    try:
        home.mkdir(mode=_PRIVATE, parents=True, exist_ok=True)
        path.mkdir(mode=_PRIVATE, exist_ok=True)
        lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise MissingError(f"no probe can be made in {str(path)!r}: {error.strerror}") from error
    with ExitStack() as stack:
        stack.callback(os.close, lock)
        _lock(lock, path)
        if not had_home:
            stack.callback(_remove_empty, home)
        stack.callback(_remove, path)
        yield ProbeFolder(path, _write_archive(path / "source.tar"))


def _lock(descriptor: int, path: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        is_ours = path.exists() and path.stat().st_ino == os.fstat(descriptor).st_ino
    except BlockingIOError:
        is_ours = False
    if not is_ours:
        raise ConflictError(f"another `doctor` is at work in {str(path)!r}; wait for its end")


def _write_archive(file: Path) -> Path:
    with tarfile.open(file, "w") as archive:
        member = tarfile.TarInfo("README")
        member.size = len(_README)
        archive.addfile(member, io.BytesIO(_README))
    return file


def _remove(path: Path) -> None:
    try:
        shutil.rmtree(path)
    except OSError as error:
        raise MissingError(f"{str(path)!r} cannot be removed: {error}") from error


def _remove_empty(home: Path) -> None:
    with suppress(OSError):  # others have made something there meanwhile
        home.rmdir()
