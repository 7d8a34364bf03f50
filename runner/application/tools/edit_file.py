"""Tool `edit_file`: exact search and replace; every byte outside of it stays."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pydantic import Field

from runner.application.tools.field_types import Path, Text
from runner.application.tools.read_file import CHECK_FILE
from runner.application.tools.replace_file import replace_file
from runner.application.tools.run_command import run_script
from runner.application.tools.tool import ToolContext, ToolOutput
from runner.application.tools.typed_tool import ToolArguments, TypedTool
from runner.application.tools.workspace_path import argument_of, normalise_path, shown_name
from sandbox import CappedOutput, CommandResult

READ_BYTES = f'{CHECK_FILE}\nexec cat -- "$1"\n'

SHOWN_LINES = 10
"""How many places of an ambiguous match are named."""


class EditFileArguments(ToolArguments):
    """Arguments of `edit_file`."""

    path: Path = Field(description="The file, relative to /workspace.")
    old: Text = Field(min_length=1, description="The exact text to replace, white space included.")
    new: Text = Field(description="What takes its place.")
    replace_all: bool = Field(
        default=False, description="Replace every occurrence; otherwise there must be exactly one."
    )


@dataclass(frozen=True, slots=True)
class Edited:
    """New bytes of a file."""

    data: bytes
    lines: tuple[int, ...]
    """Where the replaced occurrences began, counted from 1."""


@dataclass(frozen=True, slots=True)
class Refused:
    """Why an edit was not made."""

    reason: str
    text: str


def edit_bytes(
    data: bytes, old: bytes, new: bytes, *, replace_all: bool = False
) -> Edited | Refused:
    """Replace the one occurrence of `old`, or all of them.

    A line end in `old` also stands for CRLF when the text is found in no other way; `new` then
    gets CRLF too, so that a file keeps its kind of line ends.
    """
    if old == new:
        return Refused("no_change", "`old` and `new` are the same: nothing would change")
    places = _find_all(data, old)
    if not places and b"\n" in old and b"\r\n" not in old:
        old, new = (text.replace(b"\n", b"\r\n") for text in (old, new))
        places = _find_all(data, old)
    lines = tuple(data.count(b"\n", 0, place) + 1 for place in places)
    if not places:
        return Refused("no_match", _tell_missing())
    if len(places) > 1 and not replace_all:
        return Refused("ambiguous_match", _tell_ambiguous(lines))
    return Edited(data.replace(old, new), lines)


def run_edit_file(arguments: EditFileArguments, context: ToolContext) -> ToolOutput:
    """Read the file through the sandbox, edit in memory, write it back whole."""
    name = shown_name(arguments.path)
    read = run_script(READ_BYTES, argument_of(arguments.path), context=context)
    if not read.result.ok:
        return read.to_output(text=f"could not read {name}")
    seen = _without_output(read.result)
    stdout = read.result.stdout
    if stdout.missing_bytes:
        text = f"{name} has {stdout.total_bytes} bytes, too many to edit here; use shell"
        return ToolOutput(ok=False, reason="too_large", text=text, results=(seen,))
    edited = edit_bytes(
        stdout.head + stdout.tail,
        arguments.old.encode(),
        arguments.new.encode(),
        replace_all=arguments.replace_all,
    )
    if isinstance(edited, Refused):
        text = f"{name} was not changed: {edited.text}"
        return ToolOutput(ok=False, reason=edited.reason, text=text, results=(seen,))
    written = replace_file(arguments.path, edited.data, context=context)
    text = f"{name}: {_tell_done(edited)}"
    if not written.result.ok:
        text = f"could not write {name}; it is as it was"
    output = written.to_output(text=text)
    return replace(output, results=(seen, written.result))


def _find_all(data: bytes, old: bytes) -> list[int]:
    """Return where `old` begins, overlapping occurrences too: each of them could be meant."""
    places: list[int] = []
    place = data.find(old)
    while place >= 0:
        places.append(place)
        place = data.find(old, place + 1)
    return places


def _tell_missing() -> str:
    return (
        "`old` occurs 0 times in it. It must match exactly, white space and line ends included: "
        "read the file again and copy the text"
    )


def _tell_ambiguous(lines: tuple[int, ...]) -> str:
    shown = ", ".join(str(line) for line in lines[:SHOWN_LINES])
    more = ", …" if len(lines) > SHOWN_LINES else ""
    return (
        f"`old` occurs {len(lines)} times in it, at lines {shown}{more}. Take more of the text "
        "around it so that it occurs once, or set replace_all"
    )


def _tell_done(edited: Edited) -> str:
    count = len(edited.lines)
    if count == 1:
        return f"replaced 1 occurrence, at line {edited.lines[0]}"
    return f"replaced all occurrences; the first was at line {edited.lines[0]}"


def _without_output(result: CommandResult) -> CommandResult:
    """Keep a read's time and ending; the file's bytes are not what the model asked for."""
    return replace(result, stdout=CappedOutput(), stderr=CappedOutput())


EDIT_FILE = TypedTool(
    name="edit_file",
    description=(
        "Replace an exact piece of text in a file. It must occur exactly once, unless replace_all "
        "is set; the rest of the file stays byte for byte."
    ),
    arguments=EditFileArguments,
    writes=True,
    run_call=run_edit_file,
    list_paths=lambda arguments: (normalise_path(arguments.path),),
)
