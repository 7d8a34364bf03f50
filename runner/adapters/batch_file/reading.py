"""Reads the files that a batch names from the host's disk."""

from __future__ import annotations

from pathlib import Path

from runner.adapters.batch_file.document import Document, parse_document, parse_json_document
from runner.errors import BatchFileError

MAX_FILE_BYTES = 64 * 1024 * 1024


class UnusablePathError(Exception):
    """The system cannot even look whether a path exists; the text says why."""


def resolve_beside(file: str, text: str) -> Path:
    """Return the absolute path that a file means by a text; nothing need be there.

    Raises:
        UnusablePathError: no file can have this path, or the way to it is barred.
    """
    try:
        place = (Path(file).parent / Path(text).expanduser()).resolve()
        place.exists()
    except OSError as error:
        raise UnusablePathError(f"is no usable path: {error.strerror}") from error
    except (ValueError, RuntimeError) as error:  # a NUL, a home that is unknown, links in a ring
        reason = "it holds a NUL" if "\0" in text else str(error)
        raise UnusablePathError(f"is no usable path: {reason}") from error
    return place


def read_document(path: Path) -> Document:
    """Read a YAML file, or JSON where the name ends in `.json`.

    Raises:
        BatchFileError: the file is missing, unreadable, too large, not UTF-8 or has no structure.
    """
    text = _read_text(path)
    if path.suffix == ".json":
        return parse_json_document(text, file=str(path))
    return parse_document(text, file=str(path))


def _read_text(path: Path) -> str:
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise BatchFileError(str(path), 1, "", f"cannot be read: {error.strerror}") from error
    if len(data) > MAX_FILE_BYTES:
        raise BatchFileError(str(path), 1, "", f"is larger than {MAX_FILE_BYTES} bytes")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise BatchFileError(str(path), line, "", "not UTF-8 text") from error
