"""Tells a command that never started from one that ran: the engine mixes its words into stdout."""

from __future__ import annotations

import hashlib
from dataclasses import replace

from sandbox.command import CappedOutput, Command
from sandbox.docker.exec import ExecEnded

NOT_FOUND = 127  # POSIX shell: the utility was not found
NOT_EXECUTABLE = 126  # POSIX shell: found, but not executable

_RUNTIME_SAYS = b"OCI runtime exec failed:"
_SAYS_NOT_FOUND = (b"executable file not found", b"no such file or directory")


def correct_start_failure(ended: ExecEnded, command: Command) -> ExecEnded:
    """Put a start failure as a shell does: 126 or 127 and words on stderr; else change nothing.

    A command that we killed while the engine was starting it fails to start, too: then its
    ending stays ours, and only the engine's words go.
    """
    said = ended.stdout.head
    if ended.exit_code not in (NOT_FOUND, NOT_EXECUTABLE) or not said.startswith(_RUNTIME_SAYS):
        return ended
    not_found = any(words in said for words in _SAYS_NOT_FOUND)
    text = "" if ended.cause else f"sandbox: {_tell_problem(said, command, not_found=not_found)}\n"
    return replace(
        ended,
        exit_code=NOT_FOUND if not_found else NOT_EXECUTABLE,
        stdout=_make_output(b""),
        stderr=_make_output(text.encode()),
    )


def _tell_problem(said: bytes, command: Command, *, not_found: bool) -> str:
    if b"chdir to cwd" in said:
        return f"cannot change to {command.cwd!r}"
    return f"{command.argv[0]!r}: " + ("not found" if not_found else "cannot be executed")


def _make_output(text: bytes) -> CappedOutput:
    digest = hashlib.sha256(text).hexdigest()
    return CappedOutput(head=text, total_bytes=len(text), sha256=digest)
