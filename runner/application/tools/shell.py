"""Tool `shell`: one command line in the container."""

from __future__ import annotations

from pydantic import Field

from runner.application.tools.field_types import Argument
from runner.application.tools.run_command import ToolCommand, run_command
from runner.application.tools.tool import ToolContext, ToolOutput
from runner.application.tools.typed_tool import ToolArguments, TypedTool

START = """
if [ -x /bin/bash ]; then exec /bin/bash -c "$1"; fi
exec /bin/sh -c "$1"
"""
"""bash where the image has it: models write bash."""


class ShellArguments(ToolArguments):
    """Arguments of `shell`."""

    command: Argument = Field(description="The command line, run by bash in /workspace.")
    timeout_seconds: int = Field(
        default=0, ge=0, description="Stop it after this many seconds; 0 = as long as is allowed."
    )


def run_shell(arguments: ShellArguments, context: ToolContext) -> ToolOutput:
    """Run the command line; it and all it started are gone afterwards."""
    command = ToolCommand(
        argv=("/bin/sh", "-c", START, "sh", arguments.command),
        most_seconds=arguments.timeout_seconds,
        most_seconds_from="the call's own timeout_seconds",
    )
    return run_command(command, context).to_output()


SHELL = TypedTool(
    name="shell",
    description=(
        "Run a command line in the container, starting in /workspace. It has no terminal and no "
        "input. When it ends, every process that it started is killed. Long output is cut in the "
        "middle."
    ),
    arguments=ShellArguments,
    writes=True,
    run_call=run_shell,
)
