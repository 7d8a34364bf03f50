"""The images that agents run in: named by the hash of their inputs, never pulled."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from sandbox.docker.build_context import BuildContext
from sandbox.docker.dockerfile import list_base_images
from sandbox.docker.image_engine import ImageEngine
from sandbox.errors import EngineError, ImageMissingError

Progress = Callable[[str], None]
"""Receives one line of output at a time."""
FetchWheels = Callable[[Path, Path], None]
"""Downloads the wheels of a requirements file (first) into a folder (second)."""

BUILD_PREFIX = "build:"
"""Before the folder of an image that a user builds."""

_DIGITS = 12  # 48 bits: no collision among a person's images
_MEMORY_BYTES = 32 * 1024 * 1024  # a larger context goes through a file


def _silent(_line: str) -> None:
    return


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageStatus:
    """One image and whether this engine has it."""

    name: str
    """Built-in name, or `build:DIR`."""
    tag: str
    """`forkyard/NAME:HASH`."""
    image_id: str
    """`sha256:…`; empty when the engine does not have it."""

    @property
    def present(self) -> bool:
        """Tell whether a container can be made from it."""
        return bool(self.image_id)


@dataclass(frozen=True, slots=True)
class _Recipe:
    context: BuildContext
    tag: str
    requirements: Path | None = None
    """Fetched as wheels where it exists; None: nothing is fetched."""


class ImageBuilder:
    """Names, finds and builds images.

    Each folder of `images_dir` with a Dockerfile is a built-in image. A `requirements.txt` in one
    (exact versions with hashes) is fetched as wheels by this host's pip, which knows its index,
    and sent along below `wheels/`: no build needs a Python index inside a container.

    A reference is the name of a built-in image, `build:DIR` for a user's folder, or the name or
    id of any local image.
    """

    def __init__(
        self, engine: ImageEngine, images_dir: Path, *, fetch_wheels: FetchWheels | None = None
    ) -> None:
        self._engine = engine
        self._images_dir = images_dir
        self._fetch_wheels = fetch_wheels or download_wheels

    def list_images(self) -> tuple[ImageStatus, ...]:
        """Return the built-in images by name.

        Raises:
            EngineError: the engine does not answer or fails.
        """
        return tuple(self._status(name, self.tag_of(name)) for name in self._list_names())

    def tag_of(self, reference: str) -> str:
        """Return the tag that names the reference's inputs; a local image's reference as it is.

        Raises:
            SourceError: a user's folder holds no Dockerfile, or something that cannot be sent.
        """
        recipe = self._find_recipe(reference)
        return reference if recipe is None else recipe.tag

    def resolve(self, reference: str) -> str:
        """Return the id (`sha256:…`) of the image that a reference names. Nothing is pulled.

        Raises:
            ImageMissingError: the engine does not have it.
            SourceError: a user's folder holds no Dockerfile, or something that cannot be sent.
            EngineError: the engine does not answer or fails.
        """
        tag = self.tag_of(reference)
        image_id = self._engine.find_image(tag)
        if image_id is None:
            if tag == reference:
                remedy = f"`docker pull` it first, or {self._suggest(reference)}"
                raise ImageMissingError(reference, remedy=remedy)
            raise ImageMissingError(f"{reference} ({tag})")
        return image_id

    def build(self, reference: str, *, progress: Progress = _silent) -> ImageStatus:
        """Build a built-in image or a user's folder, unless the engine has it.

        Raises:
            ImageMissingError: there is no such built-in image, or an image that it builds on is
                not there; nothing is pulled.
            SourceError: a user's folder holds no Dockerfile, or something that cannot be sent.
            EngineError: a step failed.
        """
        recipe = self._find_recipe(reference)
        if recipe is None:
            remedy = self._suggest(reference)
            raise ImageMissingError(reference, problem="is no built-in image", remedy=remedy)
        if self._engine.find_image(recipe.tag) is None:
            self._check_bases(recipe)
            self._send(recipe, progress=progress)
        return self._status(reference, recipe.tag)

    def _list_names(self) -> list[str]:
        return sorted(path.parent.name for path in self._images_dir.glob("*/Dockerfile"))

    def _suggest(self, reference: str) -> str:
        names = self._list_names()
        near = get_close_matches(reference, names, n=1)
        meant = f"; did you mean {near[0]!r}?" if near else ""
        return f"name a built-in one ({', '.join(names)}){meant}"

    def _find_recipe(self, reference: str) -> _Recipe | None:
        if reference.startswith(BUILD_PREFIX):
            context = BuildContext.of_folder(Path(reference.removeprefix(BUILD_PREFIX)))
            return _Recipe(context, _make_tag("build", context.digest()))
        folder = self._images_dir / reference
        if not _is_plain(reference) or not (folder / "Dockerfile").is_file():
            return None
        context = BuildContext.of_folder(folder)
        digest = context.digest(self._base_recipe())
        return _Recipe(context, _make_tag(reference, digest), folder / "requirements.txt")

    def _check_bases(self, recipe: _Recipe) -> None:
        for base in list_base_images(recipe.context.dockerfile()):
            if self._engine.find_image(base) is None:
                raise ImageMissingError(base, remedy=self._remedy(base))

    def _send(self, recipe: _Recipe, *, progress: Progress) -> None:
        with (
            tempfile.TemporaryDirectory(prefix="forkyard-wheels-") as wheels,
            tempfile.SpooledTemporaryFile(max_size=_MEMORY_BYTES) as archive,
        ):
            if recipe.requirements is not None and recipe.requirements.is_file():
                self._fetch_wheels(recipe.requirements, Path(wheels))
            recipe.context.write_tar(archive, wheels=Path(wheels))
            archive.seek(0)
            # no forkyard.instance: a container inherits its image's labels and would be reaped
            labels = {"forkyard.image": recipe.tag}
            for line in self._engine.build_image(archive, reference=recipe.tag, labels=labels):
                progress(line)

    def _status(self, name: str, tag: str) -> ImageStatus:
        return ImageStatus(name=name, tag=tag, image_id=self._engine.find_image(tag) or "")

    def _base_recipe(self) -> bytes:
        return (self._images_dir / "base" / "recipe.toml").read_bytes()

    def _remedy(self, base: str) -> str:
        if base == tomllib.loads(self._base_recipe().decode())["tag"]:
            return "run `script/setup`, which makes it"
        return "`docker pull` or build it first"


def download_wheels(requirements: Path, folder: Path) -> None:
    """Fetch the wheels of exact, hashed requirements with this host's pip and its settings.

    Raises:
        EngineError: pip failed; the message ends with what it said.
    """
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pip", "download", "--no-input", "--quiet", "--no-deps"),
            *("--only-binary", ":all:", "--require-hashes", "--python-version", "3.11"),
            *("-r", str(requirements), "-d", str(folder)),
        ],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise EngineError(f"fetching the packages of {requirements}: {done.stderr.strip()}")


def _make_tag(name: str, digest: str) -> str:
    return f"forkyard/{name}:{digest[:_DIGITS]}"


def _is_plain(name: str) -> bool:
    return name.replace("-", "").isalnum()
