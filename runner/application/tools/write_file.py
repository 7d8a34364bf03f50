"""Tool `write_file`: a whole file, its parent directories made."""

from __future__ import annotations

from pydantic import Field

from runner.application.tools.field_types import Path, Text
from runner.application.tools.replace_file import replace_file
from runner.application.tools.tool import ToolContext, ToolOutput
from runner.application.tools.typed_tool import ToolArguments, TypedTool
from runner.application.tools.workspace_path import normalise_path, shown_name


class WriteFileArguments(ToolArguments):
    """Arguments of `write_file`."""

    path: Path = Field(description="The file, relative to /workspace.")
    content: Text = Field(description="All of its new content.")


def run_write_file(arguments: WriteFileArguments, context: ToolContext) -> ToolOutput:
    """Replace the file, or make it."""
    content = arguments.content.encode()
    name = shown_name(arguments.path)
    ran = replace_file(arguments.path, content, context=context)
    if not ran.result.ok:
        return ran.to_output(text=f"could not write {name}; it is as it was")
    return ran.to_output(text=f"wrote {len(content)} bytes to {name}")


WRITE_FILE = TypedTool(
    name="write_file",
    description=(
        "Write a whole file; what it held before is replaced. Directories on the way are made. To "
        "change a part of a file, use edit_file."
    ),
    arguments=WriteFileArguments,
    writes=True,
    run_call=run_write_file,
    list_paths=lambda arguments: (normalise_path(arguments.path),),
)
