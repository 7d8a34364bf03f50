"""Make the base image: pulled if a registry answers, else built from Debian's packages.

Both give the same tag, so the Dockerfiles in images/ do not care which it was.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import docker
import docker.errors
import requests
from apt_sources import AptSource, debian_sources, read_sources

_RECIPE = Path(__file__).resolve().parent.parent / "images" / "base" / "recipe.toml"
_KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
_REGISTRY_SECONDS = 8  # a registry that says nothing for so long counts as not there
_NOT_NEEDED = ("usr/share/doc", "usr/share/man", "usr/share/info", "usr/share/locale")
_MISSING = 3  # exit code: the environment lacks something
_NEEDS_DEBOOTSTRAP = 4  # exit code for script/setup, which installs it and comes back


class CannotMakeBaseError(Exception):
    """The base image cannot be had here; the message says what to do."""


class DebootstrapMissingError(CannotMakeBaseError):
    """No registry answers, and the program that builds from packages is not installed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """images/base/recipe.toml."""

    tag: str
    pull: str
    suite: str
    variant: str
    include: tuple[str, ...]


def main() -> int:
    """Make the image unless it is there; return the exit code."""
    client = docker.from_env()
    recipe = _read_recipe()
    try:
        client.images.get(recipe.tag)
    except docker.errors.ImageNotFound:
        pass
    else:
        return 0
    started = time.monotonic()
    try:
        how = _make(client, recipe, try_registry="--from-packages" not in sys.argv)
    except DebootstrapMissingError:
        return _NEEDS_DEBOOTSTRAP
    except CannotMakeBaseError as error:
        print(f"setup: {error}", file=sys.stderr)
        return _MISSING
    print(
        f"setup: base image {recipe.tag} {how} in {time.monotonic() - started:.0f} s", flush=True
    )
    return 0


def _read_recipe() -> Recipe:
    found = tomllib.loads(_RECIPE.read_text(encoding="utf-8"))
    return Recipe(
        tag=found["tag"],
        pull=found["pull"],
        suite=found["suite"],
        variant=found["variant"],
        include=tuple(found["include"]),
    )


def _make(client: docker.DockerClient, recipe: Recipe, *, try_registry: bool) -> str:
    if try_registry:
        print(f"setup: asking a registry for {recipe.pull} …", flush=True)
        if _pull(client, recipe):
            return "pulled"
        print("setup: no registry answers; Debian's packages will do", flush=True)
    _build(client, recipe)
    return "built from Debian's packages"


def _pull(client: docker.DockerClient, recipe: Recipe) -> bool:
    impatient = docker.from_env(timeout=_REGISTRY_SECONDS)
    try:
        for event in impatient.api.pull(recipe.pull, stream=True, decode=True):
            if "error" in event:
                return False
        client.images.get(recipe.pull).tag(recipe.tag)
    except (docker.errors.DockerException, requests.exceptions.RequestException):
        return False  # whatever the reason, there is another way
    finally:
        impatient.close()
    return True


def _build(client: docker.DockerClient, recipe: Recipe) -> None:
    sources = _mirrors(recipe)
    if os.geteuid() != 0:
        raise CannotMakeBaseError(
            "no registry answers and only root can build the base image: run script/setup as "
            f"root, or load an image and tag it {recipe.tag}"
        )
    if shutil.which("debootstrap") is None:
        raise CannotMakeBaseError(
            "no registry answers: install debootstrap to build from packages"
        )
    with _root_folder() as root:
        _debootstrap(root, recipe, sources[0])
        _trim(root, sources)
        _import(client, root, recipe)


def _mirrors(recipe: Recipe) -> tuple[AptSource, ...]:
    chosen = os.environ.get("FORKYARD_DEBIAN_MIRROR")
    if chosen:
        return (AptSource(uri=chosen, suite=recipe.suite, components=("main",)),)
    sources = debian_sources(read_sources(Path("/etc/apt")), recipe.suite)
    if not sources:
        raise CannotMakeBaseError(
            f"no registry answers and apt here knows no Debian {recipe.suite}: "
            "set FORKYARD_DEBIAN_MIRROR to the URL of a mirror"
        )
    return sources


@contextmanager
def _root_folder() -> Iterator[Path]:
    """Make a folder where device nodes work, and remove it with what a crash left mounted."""
    folder = Path(tempfile.mkdtemp(prefix="forkyard-base-", dir="/var/tmp"))
    try:
        yield folder
    finally:
        for mounted in ("proc", "sys"):
            subprocess.run(
                ["umount", "--lazy", str(folder / mounted)], capture_output=True, check=False
            )
        shutil.rmtree(folder)


def _debootstrap(root: Path, recipe: Recipe, source: AptSource) -> None:
    keyring = [f"--keyring={_KEYRING}"] if _KEYRING.exists() else []
    argv = [
        *("debootstrap", f"--variant={recipe.variant}", f"--include={','.join(recipe.include)}"),
        *(*keyring, recipe.suite, str(root), source.uri),
    ]
    done = subprocess.run(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        tail = "\n".join(done.stdout.splitlines()[-15:])
        raise CannotMakeBaseError(f"debootstrap failed:\n{tail}")


def _trim(root: Path, sources: tuple[AptSource, ...]) -> None:
    lines = dict.fromkeys(source.line for source in sources)
    (root / "etc/apt/sources.list").write_text("\n".join(lines) + "\n", encoding="utf-8")
    excludes = "".join(f"path-exclude /{name}/*\n" for name in _NOT_NEEDED)
    keep = "path-include /usr/share/doc/*/copyright\n"
    (root / "etc/dpkg/dpkg.cfg.d/small").write_text(excludes + keep, encoding="utf-8")
    for name in ("var/cache/apt/archives", "var/lib/apt/lists", *_NOT_NEEDED):
        for path in sorted((root / name).rglob("*"), reverse=True):
            _remove_unless_copyright(path)


def _remove_unless_copyright(path: Path) -> None:
    if path.is_symlink() or path.is_file():
        if path.name != "copyright":
            path.unlink()
    elif not any(path.iterdir()):
        path.rmdir()


def _import(client: docker.DockerClient, root: Path, recipe: Recipe) -> None:
    repository, _, tag = recipe.tag.partition(":")
    argv = ["tar", "--numeric-owner", "--one-file-system", "-C", str(root), "-c", "."]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as tar:
        client.api.import_image(
            src=tar.stdout,
            repository=repository,
            tag=tag,
            changes=['CMD ["bash"]'],
            stream_src=True,
        )
    if tar.returncode:
        raise CannotMakeBaseError(f"tar of the base image failed with exit code {tar.returncode}")


if __name__ == "__main__":
    sys.exit(main())
