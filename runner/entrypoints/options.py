"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import click

_Command = TypeVar("_Command", bound=Callable[..., object])


def json_option(command: _Command) -> _Command:
    """Add `--json`, which cli.py looks for when it shows the answer."""
    return click.option(
        "--json",
        "as_json",
        is_flag=True,
        expose_value=False,
        help="Print one JSON object instead of text.",
    )(command)


def results_option(command: _Command) -> _Command:
    """Add `--results DIR`."""
    return click.option(
        "--results",
        type=click.Path(path_type=Path, file_okay=False),
        default=Path("results"),
        show_default=True,
        help="Folder that gets <batch name>/<batch id>/.",
    )(command)


def parallel_option(command: _Command) -> _Command:
    """Add `--max-parallel N`."""
    return click.option(
        "--max-parallel",
        type=click.IntRange(1, 1000),
        default=None,
        help="Run at most so many tasks at once; the batch and this machine may allow fewer.",
    )(command)
