"""The command `forkyard`: options of the whole program, errors and exit codes."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import click
from rich.console import Console

from policies import Json
from runner.domain.visible import show_text
from runner.entrypoints.answers import Answer
from runner.entrypoints.commands.batch import batch
from runner.entrypoints.commands.demo import demo
from runner.entrypoints.commands.doctor import doctor
from runner.entrypoints.commands.images import images
from runner.entrypoints.commands.policy import policy
from runner.entrypoints.commands.rollout import rollout
from runner.entrypoints.commands.task import task
from runner.entrypoints.commands.worker import worker
from runner.entrypoints.context import Context
from runner.entrypoints.exit_codes import (
    OUR_ERRORS,
    ExitCode,
    error_to_json,
    exit_code_of,
    make_error_json,
    message_of,
)
from runner.entrypoints.logs import LEVELS, set_up_logs
from runner.entrypoints.render import render_answer, render_json
from runner.entrypoints.terminal import hold_standard_error
from runner.errors import UsageError


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="forkyard")
@click.option("--log-level", type=click.Choice(LEVELS), default="error", show_default=True)
@click.option(
    "--log-file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write logs there, as JSON lines.",
)
@click.pass_context
def forkyard(context: click.Context, log_level: str, log_file: Path | None) -> None:
    """Run batches of coding agents, each in its own container on a snapshot."""
    file = None
    if log_file is not None:
        try:
            file = context.with_resource(log_file.open("a", encoding="utf-8"))
        except OSError as error:
            raise UsageError(f"--log-file {str(log_file)!r}: {error.strerror}") from error
    set_up_logs(log_level, file=file)
    context.obj = context.obj or Context(Console(file=hold_standard_error()))


for _command in (batch, task, policy, images, rollout, worker, demo, doctor):
    forkyard.add_command(_command)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command and leave with its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    sys.exit(run(given))


def run(arguments: Sequence[str], *, context: Context | None = None) -> int:
    """Run one command, show its answer or error, and return the exit code.

    Args:
        context: None = this process's own terminal, settings and adapters.
    """
    as_json = "--json" in arguments
    try:
        answer = forkyard.main(
            list(arguments), prog_name="forkyard", standalone_mode=False, obj=context
        )
    except click.ClickException as error:
        return _fail_usage(error, as_json=as_json)
    except OUR_ERRORS as error:
        _tell(error_to_json(error), message_of(error), as_json=as_json)
        return exit_code_of(error)
    except (KeyboardInterrupt, click.Abort):
        _tell(make_error_json("interrupted", "interrupted"), "interrupted", as_json=as_json)
        return ExitCode.INTERRUPTED
    return _show(answer, as_json=as_json)


def _show(answer: Answer | int | None, *, as_json: bool) -> int:
    """Show an answer; an int is what click's own options, such as `--help`, leave with."""
    if answer is None or isinstance(answer, int):
        return answer or ExitCode.AS_WANTED
    try:
        shown = render_answer(answer, as_json=as_json, on_terminal=sys.stdout.isatty())
        sys.stdout.buffer.write(shown)
        sys.stdout.buffer.flush()
    except OSError:
        # the reader has seen enough or is gone; keep the interpreter from flushing into nowhere
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return answer.exit_code


def _fail_usage(error: click.ClickException, *, as_json: bool) -> int:
    if not as_json and isinstance(error, click.UsageError):
        error.show()
    else:
        message = error.format_message()
        _tell(make_error_json("usage", message), message, as_json=as_json)
    return ExitCode.USAGE


def _tell(shown: dict[str, Json], text: str, *, as_json: bool) -> None:
    if as_json:
        sys.stdout.buffer.write(render_json(shown))
        sys.stdout.buffer.flush()
        return
    for line in text.splitlines():
        click.echo(f"forkyard: {show_text(line)}", err=True)
