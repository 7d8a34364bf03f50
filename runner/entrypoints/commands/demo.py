"""`forkyard demo`."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import click

import runner
from runner.entrypoints.answers import Answer, DemoEnded
from runner.entrypoints.commands.batch import FILE, run_file
from runner.entrypoints.context import Context, pass_context
from runner.entrypoints.options import json_option, parallel_option, results_option
from runner.errors import MissingError
from runner.settings import Settings, load_settings

CHECKOUT = Path(runner.__file__).parent.parent
DEMO_FILE = Path(".demo") / "repairs.yaml"


@click.command()
@click.argument("file", type=FILE, required=False)
@results_option
@parallel_option
@json_option
@pass_context
def demo(context: Context, file: Path | None, results: Path, max_parallel: int | None) -> Answer:
    """Run the demo's batch of real repairs and say what to look at next."""
    chosen = file or find_demo_file()
    with context.open() as app:
        ended = run_file(app, context, chosen, results=results, parallel=max_parallel)
        return DemoEnded(ended, name_program(app.settings))


def name_program(settings: Settings) -> str:
    """Return what to type to get this program with this home from another shell."""
    program = sys.argv[0] if Path(sys.argv[0]).name == "forkyard" else "forkyard"
    bare = {name: value for name, value in settings.environment.items() if name != "FORKYARD_HOME"}
    if load_settings(bare).home == settings.home:
        return program
    return f"FORKYARD_HOME={shlex.quote(str(settings.home))} {shlex.quote(program)}"


def find_demo_file() -> Path:
    """Return the demo's batch file, of the working folder or of the checkout.

    Raises:
        MissingError: `script/setup` has not made it yet.
    """
    for folder in (Path.cwd(), CHECKOUT):
        if (folder / DEMO_FILE).is_file():
            return folder / DEMO_FILE
    raise MissingError(f"{CHECKOUT / DEMO_FILE} is not there; run `script/setup`, which makes it")
