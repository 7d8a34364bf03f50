"""Tool `list_files`: names below a directory, to a depth."""

from __future__ import annotations

import hashlib
from dataclasses import replace

from pydantic import Field

from policies import show_path
from runner.application.tools.field_types import Path
from runner.application.tools.run_command import run_script
from runner.application.tools.tool import ToolContext, ToolOutput
from runner.application.tools.typed_tool import ToolArguments, TypedTool
from runner.application.tools.workspace_path import argument_of, normalise_path, shown_name
from sandbox import CappedOutput

LIST_NAMES = r"""
if [ ! -d "$1" ]; then echo "there is no such directory" >&2; exit 66; fi
exec find -H "$1" -mindepth 1 -maxdepth "$2" -name .git -prune -o \
  -type d -exec printf '%s/\0' {} + -o -exec printf '%s\0' {} +
"""
"""66: EX_NOINPUT of sysexits.h. NUL ends each name: any other byte may be part of one."""


class ListFilesArguments(ToolArguments):
    """Arguments of `list_files`."""

    path: Path = Field(default=".", description="The directory, relative to /workspace.")
    depth: int = Field(default=3, ge=1, le=20, description="How many levels below it.")


def run_list_files(arguments: ListFilesArguments, context: ToolContext) -> ToolOutput:
    """Return the names as the command's output, one a line, in order."""
    target = argument_of(arguments.path)
    ran = run_script(LIST_NAMES, target, str(arguments.depth), context=context)
    name = shown_name(arguments.path)
    if not ran.result.ok:
        return ran.to_output(text=f"could not list all of {name}")
    names, complete = _read_names(ran.result.stdout)
    count = f"{len(names)} names" if complete else f"the first {len(names)} names that were read"
    text = f"{name}, {arguments.depth} levels deep, without .git: {count}"
    listing = b"".join(_show_name(one) for one in sorted(names))
    result = replace(ran.result, stdout=_whole(listing))
    return replace(ran.to_output(text=text), results=(result,))


def _read_names(stdout: CappedOutput) -> tuple[list[bytes], bool]:
    complete = not stdout.missing_bytes
    data = stdout.head + stdout.tail if complete else stdout.head
    ended = data.split(b"\0")[:-1]
    return ended, complete


def _show_name(name: bytes) -> bytes:
    shown = show_path(name.removeprefix(b"./"))
    return shown.replace("\n", "\\n").replace("\r", "\\r").encode() + b"\n"


def _whole(data: bytes) -> CappedOutput:
    digest = hashlib.sha256(data).hexdigest()
    return CappedOutput(head=data, total_bytes=len(data), sha256=digest)


LIST_FILES = TypedTool(
    name="list_files",
    description=(
        "List names below a directory, `.git` left out; directories end in a slash. Hidden and "
        "ignored files are listed too."
    ),
    arguments=ListFilesArguments,
    writes=False,
    run_call=run_list_files,
    list_paths=lambda arguments: (normalise_path(arguments.path),),
)
