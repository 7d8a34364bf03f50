"""What a user should know of a base commit's files, kept beside its repository."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from policies import show_path
from sandbox.git.base import BaseTree
from sandbox.git.objects import ObjectReader
from sandbox.git.trees import MODE_FILE, MODE_PROGRAM

_ATTRIBUTES: Final = b".gitattributes"
_SHOWN_NOTES: Final = 50


def list_notes(reader: ObjectReader, base: BaseTree, *, is_cut: bool) -> tuple[str, ...]:
    """Return what an untouched checkout of ours has otherwise than the user's own.

    Args:
        reader: of the base repository.
        base: its commit.
        is_cut: a part of the past is not there although all was asked for.
    """
    notes = ["the source is a shallow clone: a part of the past is missing"] if is_cut else []
    notes += [
        f"{show_path(link)}: a submodule: its commit is kept, its folder is empty"
        for link in sorted(base.gitlinks)
    ]
    attributes = [
        entry.oid
        for path, entry in base.paths.items()
        if path.rpartition(b"/")[2] == _ATTRIBUTES and entry.mode in (MODE_FILE, MODE_PROGRAM)
    ]
    if any(b"filter=lfs" in one.read() for one in reader.each(attributes)):
        notes.append("files that git-lfs keeps are there as pointers: no filter ever runs")
    return tuple(notes)


def write_notes(target: Path, notes: Sequence[str]) -> None:
    """Keep the notes of a base repository; before it has its name."""
    if not notes:
        return
    more = len(notes) - _SHOWN_NOTES
    shown = [*notes[:_SHOWN_NOTES], *([f"{more} more"] if more > 0 else [])]
    fresh = _place_of(target).with_suffix(".new")
    fresh.write_text(json.dumps(shown))
    fresh.rename(_place_of(target))


def read_notes(target: Path) -> tuple[str, ...]:
    """Return the notes of a base repository; none where there is nothing to say."""
    try:
        return tuple(json.loads(_place_of(target).read_text()))
    except FileNotFoundError:
        return ()


def _place_of(target: Path) -> Path:
    return target.with_suffix(".notes")
