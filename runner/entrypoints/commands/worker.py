"""`forkyard worker`."""

from __future__ import annotations

import click

from runner.application.dispatch import DispatchOptions
from runner.entrypoints.answers import Answer, Worked
from runner.entrypoints.context import Context, pass_context
from runner.entrypoints.options import json_option, parallel_option
from runner.entrypoints.progress import make_progress
from runner.entrypoints.working import DEFAULT_PARALLEL, run_dispatcher, suspend_on_signals


@click.command()
@click.option("--until-idle", is_flag=True, help="End when nothing is due any more.")
@parallel_option
@json_option
@pass_context
def worker(context: Context, until_idle: bool, max_parallel: int | None) -> Answer:  # noqa: FBT001  click passes flags by name
    """Work on everything that was submitted, until a signal suspends it."""
    options = DispatchOptions(parallel=max_parallel or DEFAULT_PARALLEL, until_idle=until_idle)
    with context.open() as app, suspend_on_signals() as stop:
        progress = make_progress(context.console, app.services.clock, look=None)
        with progress:
            run_dispatcher(app, stop, options=options, progress=progress)
        return Worked(interrupted=stop.is_set())
