"""Run one of a tool's commands with the limits of the call, and say how it ended."""

from __future__ import annotations

from dataclasses import dataclass

from runner.application.tools.tool import ToolContext, ToolOutput
from sandbox import Command, CommandResult, Ending

OWN_ENVIRONMENT = (("PATH", "/usr/bin:/bin"), ("LC_ALL", "C"))
"""For our own scripts: system programs alone, never one that the agent put on its PATH; names and
contents are bytes."""

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCommand:
    """What to run, without the limits that the call gives it."""

    argv: tuple[str, ...]
    stdin: bytes = b""
    environment: tuple[tuple[str, str], ...] = ()
    most_seconds: float = 0
    """A limit below the call's own; 0 = none."""
    most_seconds_from: str = ""
    """Where that limit comes from, in words."""
    output_bytes: int = 0
    """How much of each stream is kept; 0 = as much as evidence may have."""


@dataclass(frozen=True, slots=True)
class Ran:
    """A command's result with the time limit it had."""

    result: CommandResult
    timeout_seconds: float
    timeout_limit: str

    def to_output(self, *, text: str = "") -> ToolOutput:
        """Return the output of a call that is this one command."""
        return ToolOutput(
            ok=self.result.ok,
            reason=reason_of(self.result),
            text=text,
            results=(self.result,),
            timeout_seconds=self.timeout_seconds,
            timeout_limit=self.timeout_limit,
        )


def run_command(command: ToolCommand, context: ToolContext) -> Ran:
    """Run a command within the call's limits.

    Raises:
        SandboxLostError, EngineUnavailableError: what stopped us from knowing.
    """
    seconds, limit = context.timeout_seconds, context.timeout_limit
    if command.most_seconds and command.most_seconds < seconds:
        seconds, limit = command.most_seconds, command.most_seconds_from
    result = context.sandbox.run(
        Command(
            argv=command.argv,
            environment=command.environment,
            stdin=command.stdin,
            timeout_seconds=seconds,
            output_bytes=command.output_bytes or kept_bytes(context),
        ),
        stop=context.stop,
    )
    return Ran(result, seconds, limit)


def run_script(script: str, *arguments: str, context: ToolContext, stdin: bytes = b"") -> Ran:
    """Run a POSIX shell script of ours; what varies comes as `$1`, `$2`, …, never in its text.

    Raises:
        SandboxLostError, EngineUnavailableError: what stopped us from knowing.
    """
    argv = ("/bin/sh", "-c", script, "sh", *arguments)
    command = ToolCommand(argv=argv, stdin=stdin, environment=OWN_ENVIRONMENT)
    return run_command(command, context)


def kept_bytes(context: ToolContext) -> int:
    """Return how much of one stream is kept: both together fill the evidence."""
    return max(context.limits.evidence_mib * MIB // 2, context.limits.shown_kib * 1024)


def reason_of(result: CommandResult) -> str:
    """Return the stable reason of a result; empty when it is ok."""
    if result.ok:
        return ""
    if result.ending is Ending.DISK_FULL and result.limit == "inodes":
        return "inodes_full"
    return "nonzero_exit" if result.ending is Ending.EXITED else result.ending.value
