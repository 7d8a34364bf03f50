"""`forkyard policy …`."""

from __future__ import annotations

from pathlib import Path

import click

from policies import ChangeKind, Policy, explain_action, explain_change, load_policy
from runner.application.tools.workspace_path import normalise_path
from runner.entrypoints.answers import Answer, Explained, PolicyChecked
from runner.entrypoints.context import Context, pass_context
from runner.entrypoints.options import json_option
from runner.errors import UsageError

REPOSITORY = click.option(
    "--repository", default="", help="URL or path whose own policy is merged too."
)


@click.group()
def policy() -> None:
    """Check policies and ask what they decide."""


@policy.command()
@click.argument("name", metavar="NAME|FILE")
@REPOSITORY
@json_option
@pass_context
def check(context: Context, name: str, repository: str) -> Answer:
    """Load a policy with all its layers and run its examples."""
    return PolicyChecked(_load(context, name, repository))


@policy.command()
@click.argument("name", metavar="NAME|FILE")
@click.option("--tool", default="", help="The tool that would be called.")
@click.option("--path", default="", help="The path that it names, or that would change.")
@click.option(
    "--change",
    type=click.Choice([one.value for one in ChangeKind]),
    default=None,
    help="Ask about a change of the path instead of a call.",
)
@REPOSITORY
@json_option
@pass_context
def explain(  # one parameter for each option
    context: Context, name: str, tool: str, path: str, change: str | None, repository: str
) -> Answer:
    """Say what a policy decides about a call (--tool, --path) or a change (--path, --change)."""
    loaded = _load(context, name, repository)
    path = path and normalise_path(path)
    if change is not None:
        if not path or tool:
            raise UsageError("--change goes with --path, not with --tool")
        return Explained(explain_change(loaded, path=path, kind=ChangeKind(change)))
    if not tool:
        raise UsageError("give --tool, or --path with --change")
    return Explained(explain_action(loaded, tool=tool, path=path))


def _load(context: Context, name: str, repository: str) -> Policy:
    settings = context.read_settings()
    return load_policy(
        name,
        folder=settings.home / "policies",
        repository=_absolute(repository),
        mount_roots=settings.mount_roots,
    )


def _absolute(repository: str) -> str:
    return (
        str(Path(repository).resolve()) if Path(repository).is_dir() and repository else repository
    )
