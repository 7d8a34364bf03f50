"""Tool `search`: lines that match a pattern."""

from __future__ import annotations

from dataclasses import replace

from pydantic import Field

from runner.application.tools.field_types import Argument, Path
from runner.application.tools.run_command import OWN_ENVIRONMENT, ToolCommand, run_command
from runner.application.tools.tool import ToolContext, ToolOutput
from runner.application.tools.typed_tool import ToolArguments, TypedTool
from runner.application.tools.workspace_path import argument_of, normalise_path, shown_name
from sandbox import CommandResult, Ending

NO_MATCH = 1  # exit status of grep(1) when no line was selected
FILE_MATCHES = 200
"""Most lines of one file that are listed."""


class SearchArguments(ToolArguments):
    """Arguments of `search`."""

    pattern: Argument = Field(description="An extended regular expression, as for grep -E.")
    path: Path = Field(default=".", description="Directory or file, relative to /workspace.")
    ignore_case: bool = Field(default=False, description="Take upper and lower case as the same.")


def run_search(arguments: SearchArguments, context: ToolContext) -> ToolOutput:
    """Return matching lines with file name and line number as the command's output."""
    case = ("-i",) if arguments.ignore_case else ()
    flags = ("-rnHIE", *case, "-D", "skip", "-m", str(FILE_MATCHES), "--exclude-dir=.git")
    target = argument_of(arguments.path)
    command = ToolCommand(
        argv=("grep", *flags, "-e", arguments.pattern, "--", target),
        environment=OWN_ENVIRONMENT,
    )
    ran = run_command(command, context)
    output = ran.to_output(text=_tell(arguments, ran.result))
    if _found_nothing(ran.result):
        return replace(output, ok=True, reason="")
    return output


def _found_nothing(result: CommandResult) -> bool:
    return result.ending is Ending.EXITED and result.exit_code == NO_MATCH


def _tell(arguments: SearchArguments, result: CommandResult) -> str:
    where = shown_name(arguments.path)
    if _found_nothing(result):
        return f"no line in {where} matches"
    if not result.ok:
        return f"could not search all of {where}"
    return f"matches in {where} (at most {FILE_MATCHES} lines of one file):"


SEARCH = TypedTool(
    name="search",
    description=(
        "Find lines that match an extended regular expression in text files below a path; `.git` "
        "and binary files are left out."
    ),
    arguments=SearchArguments,
    writes=False,
    run_call=run_search,
    list_paths=lambda arguments: (normalise_path(arguments.path),),
)
