"""What git and the kernel report, translated into this package's errors."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from sandbox.errors import (
    DiskFullError,
    RepositoryError,
    SandboxError,
    SnapshotError,
    SourceError,
)

_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
_FULL_WORDS: Final = (b"No space left on device", b"Disk quota exceeded")
_SHOWN_CHARACTERS: Final = 400


def make_git_failure(arguments: Sequence[str], stderr: bytes) -> SandboxError:
    """Build the error for a git process that failed for no fault of the user's."""
    said = show_stderr(stderr)
    if any(words in stderr for words in _FULL_WORDS):
        return DiskFullError(f"git {arguments[0]}: {said}")
    return RepositoryError(f"git {arguments[0]} failed: {said or 'it said nothing'}")


def show_stderr(stderr: bytes) -> str:
    """Return the last part of what a program complained about, safe to print."""
    text = stderr.decode("utf-8", "backslashreplace").strip()
    line = " / ".join(part.strip() for part in text.splitlines() if part.strip())
    return "".join(c if c.isprintable() else "?" for c in line)[-_SHOWN_CHARACTERS:]


@contextmanager
def translated_os_errors(doing: str) -> Iterator[None]:
    """Turn errors of file operations into ours.

    Raises:
        DiskFullError: the file system has no room or no inode left.
        SnapshotError: any other error of the operating system.
    """
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise DiskFullError(f"{doing}: {error.strerror}") from error
        raise SnapshotError(f"{doing}: {error}") from error


@contextmanager
def translated_checkout_errors(location: str) -> Iterator[None]:
    """Turn errors of file operations in a user's checkout into ours.

    Raises:
        DiskFullError: the file system has no room or no inode left.
        SourceError: any other error of the operating system.
    """
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise DiskFullError(f"writing to {location!r}: {error.strerror}") from error
        raise SourceError(location, f"its checkout cannot be written: {error}") from error
