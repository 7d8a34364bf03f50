"""`forkyard images …`."""

from __future__ import annotations

import click

from runner.bootstrap import open_images
from runner.entrypoints.answers import Answer, ImageListing, ImageRow
from runner.entrypoints.context import Context, pass_context
from runner.entrypoints.options import json_option


@click.group()
def images() -> None:
    """Build and list the images that agents run in."""


@images.command()
@click.argument("names", nargs=-1, metavar="[NAME]...")
@json_option
@pass_context
def build(context: Context, names: tuple[str, ...]) -> Answer:
    """Build the built-in images (all, or the named ones) that the engine does not have."""
    with open_images(context.read_settings()) as builder:
        wanted = names or tuple(one.name for one in builder.list_images())
        built = []
        for name in wanted:
            tag = builder.tag_of(name)
            if tag != name:
                context.say(f"image {name}: {tag}")
            one = builder.build(name, progress=context.say)
            built.append(ImageRow(name=one.name, tag=one.tag, image_id=one.image_id))
        return ImageListing(tuple(built))


@images.command(name="list")
@json_option
@pass_context
def list_command(context: Context) -> Answer:
    """List the built-in images and whether the engine has them."""
    with open_images(context.read_settings()) as builder:
        rows = (
            ImageRow(name=one.name, tag=one.tag, image_id=one.image_id)
            for one in builder.list_images()
        )
        return ImageListing(tuple(rows))
