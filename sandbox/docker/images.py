"""The images that agents run in: named by the hash of their inputs, never pulled."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sandbox.docker.build_context import BuildContext
from sandbox.docker.dockerfile import list_base_images
from sandbox.docker.image_engine import ImageEngine
from sandbox.errors import EngineError, ImageMissingError

Progress = Callable[[str], None]
"""Receives one line of output at a time."""
FetchWheels = Callable[[Path, Path], None]
"""Downloads the wheels of a requirements file (first) into a folder (second)."""

_DIGITS = 12  # 48 bits: no collision among a person's images
_MEMORY_BYTES = 32 * 1024 * 1024  # a larger context goes through a file


def _silent(_line: str) -> None:
    return


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageStatus:
    """One image and whether this engine has it."""

    name: str
    """Built-in name, or the name of the folder it is built from."""
    tag: str
    """`forkyard/NAME:HASH`."""
    image_id: str
    """`sha256:…`; empty when the engine does not have it."""

    @property
    def present(self) -> bool:
        """Tell whether a container can be made from it."""
        return bool(self.image_id)


class ImageBuilder:
    """Names, finds and builds images.

    Each folder of `images_dir` with a Dockerfile is a built-in image. A `requirements.txt` in one
    (exact versions with hashes) is fetched as wheels by this host's pip, which knows its index,
    and sent along below `wheels/`: no build needs a Python index inside a container.
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
        folders = sorted(path.parent for path in self._images_dir.glob("*/Dockerfile"))
        return tuple(self._status(folder.name, self.tag_of(folder.name)) for folder in folders)

    def tag_of(self, name: str) -> str:
        """Return the tag of a built-in image, or any other reference as it is."""
        folder = self._images_dir / name
        if not _is_plain(name) or not (folder / "Dockerfile").is_file():
            return name
        return self._folder_tag(name, BuildContext.of_folder(folder), self._recipe())

    def folder_tag(self, folder: Path) -> str:
        """Return the tag that a user's folder (`{build: DIR}`) is built under.

        Raises:
            SourceError: the folder holds no Dockerfile, or something that cannot be sent.
        """
        return self._folder_tag("build", BuildContext.of_folder(folder))

    def resolve(self, reference: str) -> str:
        """Return the image id of a built-in name or a local reference. Nothing is pulled.

        Raises:
            ImageMissingError: the engine does not have it.
            EngineError: the engine does not answer or fails.
        """
        tag = self.tag_of(reference)
        image_id = self._engine.find_image(tag)
        if image_id is None:
            raise ImageMissingError(reference if tag == reference else f"{reference} ({tag})")
        return image_id

    def build(self, name: str, *, progress: Progress = _silent) -> ImageStatus:
        """Build a built-in image unless the engine has it.

        Raises:
            ImageMissingError: there is no such built-in image, or its base is not there.
            EngineError: a step failed.
        """
        tag = self.tag_of(name)
        if tag == name:
            raise ImageMissingError(name)
        return self._build(self._images_dir / name, tag, progress=progress, wheels=True)

    def build_folder(self, folder: Path, *, progress: Progress = _silent) -> ImageStatus:
        """Build a user's folder unless the engine has an image of the same files.

        Raises:
            SourceError: the folder holds no Dockerfile, or something that cannot be sent.
            ImageMissingError: an image that it builds on is not there; nothing is pulled.
            EngineError: a step failed.
        """
        return self._build(folder, self.folder_tag(folder), progress=progress, wheels=False)

    def _build(self, folder: Path, tag: str, *, progress: Progress, wheels: bool) -> ImageStatus:
        status = self._status(folder.name, tag)
        if status.present:
            return status
        context = BuildContext.of_folder(folder)
        for base in list_base_images(context.dockerfile()):
            if self._engine.find_image(base) is None:
                raise ImageMissingError(base, remedy=self._remedy(base))
        with tempfile.TemporaryDirectory(prefix="forkyard-wheels-") as fetched:
            if wheels and (folder / "requirements.txt").is_file():
                self._fetch_wheels(folder / "requirements.txt", Path(fetched))
            self._send(context, tag, progress=progress, wheels=Path(fetched))
        return self._status(folder.name, tag)

    def _send(self, context: BuildContext, tag: str, *, progress: Progress, wheels: Path) -> None:
        with tempfile.SpooledTemporaryFile(max_size=_MEMORY_BYTES) as archive:
            context.write_tar(archive, wheels=wheels)
            archive.seek(0)
            # no forkyard.instance: a container inherits its image's labels and would be reaped
            labels = {"forkyard.image": tag}
            for line in self._engine.build_image(archive, reference=tag, labels=labels):
                progress(line)

    def _status(self, name: str, tag: str) -> ImageStatus:
        return ImageStatus(name=name, tag=tag, image_id=self._engine.find_image(tag) or "")

    def _folder_tag(self, name: str, context: BuildContext, *extra: bytes) -> str:
        return f"forkyard/{name}:{context.digest(*extra)[:_DIGITS]}"

    def _recipe(self) -> bytes:
        return (self._images_dir / "base" / "recipe.toml").read_bytes()

    def _remedy(self, base: str) -> str:
        if base == tomllib.loads(self._recipe().decode())["tag"]:
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


def _is_plain(name: str) -> bool:
    return name.replace("-", "").isalnum()
