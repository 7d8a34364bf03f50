"""Tells a command that never started from one that ran: the engine mixes its words into stdout."""

from __future__ import annotations

import hashlib

from sandbox.command import CappedOutput, Command
from sandbox.docker.exec import ExecEnded

NOT_FOUND = 127  # POSIX shell: the utility was not found
NOT_EXECUTABLE = 126  # POSIX shell: found, but not executable

_RUNTIME_SAYS = b"OCI runtime exec failed:"
_SAYS_NOT_FOUND = (b"executable file not found", b"no such file or directory")


def find_start_failure(ended: ExecEnded, command: Command) -> tuple[int, CappedOutput] | None:
    """Return exit code and error text, as a shell gives them, or None if the command ran."""
    said = ended.stdout.head
    if ended.exit_code not in (NOT_FOUND, NOT_EXECUTABLE) or not said.startswith(_RUNTIME_SAYS):
        return None
    not_found = any(words in said for words in _SAYS_NOT_FOUND)
    if b"chdir to cwd" in said:
        problem = f"cannot change to {command.cwd!r}"
    else:
        problem = f"{command.argv[0]!r}: " + ("not found" if not_found else "cannot be executed")
    text = f"sandbox: {problem}\n".encode()
    return (
        NOT_FOUND if not_found else NOT_EXECUTABLE,
        CappedOutput(head=text, total_bytes=len(text), sha256=hashlib.sha256(text).hexdigest()),
    )
