"""Standard error for progress and logs: a terminal that went away must not stop the work.

After a hang-up every write fails; the work is suspended by the signal, not by those failures.
"""

from __future__ import annotations

import contextlib
import io
import sys
from typing import TextIO, cast


def hold_standard_error() -> TextIO:
    """Return standard error as it is now, as a file that never fails: for the console.

    The live table puts itself in front of `sys.stderr` and writes to the console, so the console
    must not look `sys.stderr` up again.
    """
    return cast("TextIO", _NeverFailing(sys.stderr))


def follow_standard_error() -> TextIO:
    """Return whatever is standard error at each write, as a file that never fails: for logs."""
    return cast("TextIO", _NeverFailing(None))


class _NeverFailing(io.TextIOBase):
    """Drops what cannot be written. A stream of None is `sys.stderr` at that moment."""

    def __init__(self, stream: TextIO | None) -> None:
        self._held = stream

    @property
    def _stream(self) -> TextIO:
        return self._held or sys.stderr

    def write(self, text: str, /) -> int:
        with contextlib.suppress(OSError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError):
            self._stream.flush()

    def isatty(self) -> bool:
        return self._stream.isatty()

    def fileno(self) -> int:
        return self._stream.fileno()

    @property
    def encoding(self) -> str:  # type: ignore[override]  # an attribute in typeshed
        return self._stream.encoding
