"""`forkyard demo`."""

from __future__ import annotations

from pathlib import Path

import click

import runner
from runner.entrypoints.answers import Answer, DemoEnded
from runner.entrypoints.commands.batch import FILE, run_file
from runner.entrypoints.context import Context, pass_context
from runner.entrypoints.options import json_option, parallel_option, results_option
from runner.errors import MissingError

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
        return DemoEnded(ended)


def find_demo_file() -> Path:
    """Return the demo's batch file, of the working folder or of the checkout.

    Raises:
        MissingError: `script/setup` has not made it yet.
    """
    for folder in (Path.cwd(), CHECKOUT):
        if (folder / DEMO_FILE).is_file():
            return folder / DEMO_FILE
    raise MissingError(f"{CHECKOUT / DEMO_FILE} is not there; run `script/setup`, which makes it")
