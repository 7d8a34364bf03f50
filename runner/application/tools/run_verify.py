"""Tool `run_verify`: the task's own verification command, in the agent's container."""

from __future__ import annotations

from runner.application.tools.run_command import ToolCommand, run_command
from runner.application.tools.tool import ToolContext, ToolOutput
from runner.application.tools.typed_tool import ToolArguments, TypedTool


class RunVerifyArguments(ToolArguments):
    """`run_verify` takes no arguments."""


def run_verification(_arguments: RunVerifyArguments, context: ToolContext) -> ToolOutput:
    """Run the command on the files as they are; it proves nothing, it only informs."""
    verify = context.verify
    if verify is None:
        text = "this task has no verification command"
        return ToolOutput(ok=False, reason="no_verification", text=text)
    command = ToolCommand(
        argv=verify.argv,
        environment=tuple(sorted(verify.env.items())),
        most_seconds=verify.timeout_seconds,
        most_seconds_from="the verification's timeout_seconds",
    )
    return run_command(command, context).to_output()


RUN_VERIFY = TypedTool(
    name="run_verify",
    description=(
        "Run the command that decides whether the task is done, on the files as they are now. "
        "After the end it is run again, in a fresh container with protected files restored."
    ),
    arguments=RunVerifyArguments,
    writes=True,
    run_call=run_verification,
)
