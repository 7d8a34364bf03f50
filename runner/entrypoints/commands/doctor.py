"""`forkyard doctor`."""

from __future__ import annotations

import click

from policies import load_policy
from runner.application.examine_host import examine_host
from runner.bootstrap import make_doctor
from runner.entrypoints.answers import Answer
from runner.entrypoints.context import Context, pass_context
from runner.entrypoints.examined import Examined
from runner.entrypoints.options import json_option


@click.command()
@click.option(
    "--policy",
    "name",
    default="repair",
    show_default=True,
    metavar="NAME|FILE",
    help="Examine what this policy asks for.",
)
@click.option(
    "--image",
    default="python",
    show_default=True,
    help="Image of the probe containers; needs python3.",
)
@json_option
@pass_context
def doctor(context: Context, name: str, image: str) -> Answer:
    """Say what engine and host have, and prove each guard by trying to break it."""
    settings = context.read_settings()
    policy = load_policy(name, folder=settings.home / "policies", mount_roots=settings.mount_roots)
    return Examined(examine_host(policy, image, doctor=make_doctor(settings)))
