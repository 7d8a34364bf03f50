"""The log of commands that are no calls of the agent, as it is kept and shown."""

from __future__ import annotations

from collections.abc import Sequence

from policies import canonical_json
from runner.domain.visible import show_line
from sandbox import CappedOutput, CommandResult, Ending

LOG_BYTES = 1024 * 1024
"""How much of each stream of such a command is kept."""

LAST_LINES = 3
"""How many lines of output a reason quotes."""

LAST_CHARACTERS = 300
"""How long that quotation is at most."""


def render_log(results: Sequence[CommandResult]) -> bytes:
    """Return a log: for each run a line of JSON that says how it ended, then its output."""
    parts: list[bytes] = []
    for number, result in enumerate(results, start=1):
        head = {"run": number, "ending": result.ending.value, "exit_code": result.exit_code}
        parts.append(canonical_json(head) + b"\n")
        for stream in (result.stdout, result.stderr):
            parts.append(stream.head)
            if stream.missing_bytes:
                parts.append(b"\n[%d bytes are not kept]\n" % stream.missing_bytes)
            parts.append(stream.tail)
    return b"".join(parts)


def tell_ending(result: CommandResult, *, limit: str) -> str:
    """Return in a few words how a command ended that did not pass.

    Args:
        limit: its time limit with the field that sets it.
    """
    if result.ending is Ending.EXITED:
        return f"exit code {result.exit_code}"
    if result.ending is Ending.TIMED_OUT:
        return f"timed out after {limit}"
    return f"{result.ending.value}: {result.detail}".rstrip(": ")


def quote_last_lines(result: CommandResult) -> str:
    """Return the last lines of what a command said, errors first; empty where it said nothing."""
    for stream in (result.stderr, result.stdout):
        lines = _last_text(stream).split("\n")
        said = [line.strip() for line in lines if line.strip()][-LAST_LINES:]
        if said:
            return show_line(" / ".join(said), LAST_CHARACTERS)
    return ""


def _last_text(stream: CappedOutput) -> str:
    return (stream.tail or stream.head).decode("utf-8", "backslashreplace")
