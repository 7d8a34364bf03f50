"""Tool `finish`: the agent says that it is done."""

from __future__ import annotations

from pydantic import Field

from runner.application.tools.field_types import Text
from runner.application.tools.tool import ToolContext, ToolOutput
from runner.application.tools.typed_tool import ToolArguments, TypedTool


class FinishArguments(ToolArguments):
    """Arguments of `finish`."""

    summary: Text = Field(description="What was done and what was not, in a few sentences.")


def run_finish(_arguments: FinishArguments, _context: ToolContext) -> ToolOutput:
    """End the run; the summary stays in the call's arguments."""
    return ToolOutput(ok=True, text="finished")


FINISH = TypedTool(
    name="finish",
    description="End the work on this task. Call it once, when nothing is left to do.",
    arguments=FinishArguments,
    writes=False,
    ends_run=True,
    run_call=run_finish,
)
