"""Tool `read_file`: the lines of one file."""

from __future__ import annotations

from pydantic import Field

from runner.application.tools.field_types import Path
from runner.application.tools.run_command import run_script
from runner.application.tools.tool import ToolContext, ToolOutput
from runner.application.tools.typed_tool import ToolArguments, TypedTool
from runner.application.tools.workspace_path import argument_of, normalise_path, shown_name

CHECK_FILE = """
if [ -d "$1" ]; then echo "it is a directory" >&2; exit 66; fi
if [ ! -e "$1" ]; then echo "there is no such file" >&2; exit 66; fi
if [ ! -f "$1" ]; then echo "it is not a regular file" >&2; exit 66; fi
"""
"""66: EX_NOINPUT of sysexits.h. A FIFO or a device is refused: reading one may never end."""

READ_LINES = f"""{CHECK_FILE}
if [ "$3" = 0 ]; then exec tail -n "+$2" -- "$1"; fi
tail -n "+$2" -- "$1" | head -n "$3"
"""


class ReadFileArguments(ToolArguments):
    """Arguments of `read_file`."""

    path: Path = Field(description="The file, relative to /workspace.")
    offset: int = Field(default=1, ge=1, le=10**9, description="The first line, counted from 1.")
    limit: int = Field(default=0, ge=0, le=10**9, description="How many lines; 0 = to the end.")


def run_read_file(arguments: ReadFileArguments, context: ToolContext) -> ToolOutput:
    """Return the lines as the command's output."""
    ran = run_script(
        READ_LINES,
        argument_of(arguments.path),
        str(arguments.offset),
        str(arguments.limit),
        context=context,
    )
    return ran.to_output(text=_tell(arguments))


def _tell(arguments: ReadFileArguments) -> str:
    first, count = arguments.offset, arguments.limit
    name = shown_name(arguments.path)
    if count:
        return f"{name}, lines {first} to {first + count - 1}:"
    return f"{name}, from line {first}:" if first > 1 else f"{name}:"


READ_FILE = TypedTool(
    name="read_file",
    description=(
        "Read a text file, whole or from a line on. Long files are cut in the middle: read those "
        "in parts with offset and limit."
    ),
    arguments=ReadFileArguments,
    writes=False,
    run_call=run_read_file,
    list_paths=lambda arguments: (normalise_path(arguments.path),),
)
