"""What a user's git ignores beside the ignore files of the checkout: read, never obeyed blindly.

A file that the user's own `git status` does not show must not travel with the new ones.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from sandbox.git.process import Git

_READ: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_BYTES: Final = 1024 * 1024
_OURS: Final = ("GIT_CONFIG", "HOME", "XDG_CONFIG_HOME")


def read_excludes(git: Git, directory: Path, *, trusted: Sequence[str]) -> bytes:
    """Return the user's own ignore patterns and then those of the repository, which are stronger.

    Args:
        git: how git is started; only `git config --get` is, which executes nothing.
        directory: the repository's common directory.
        trusted: options that name whose repository it is.
    """
    named = _as_the_user(git).attempt(
        directory, [*trusted, "config", "--type=path", "--get", "core.excludesFile"]
    )
    own = Path(os.fsdecode(named.stdout.rstrip(b"\n"))) if named.stdout.strip() else _default()
    return _read(own) + b"\n" + _read(directory / "info" / "exclude") + b"\n"


def _as_the_user(git: Git) -> Git:
    """Return a git that reads the user's configuration; for questions about it alone."""
    environment = {k: v for k, v in git.environment.items() if not k.startswith(_OURS)}
    return replace(git, environment=environment | _homes(os.environ))


def _homes(variables: Mapping[str, str]) -> dict[str, str]:
    return {key: variables[key] for key in ("HOME", "XDG_CONFIG_HOME") if key in variables}


def _default() -> Path:
    homes = _homes(os.environ)
    above = homes.get("XDG_CONFIG_HOME") or f"{homes.get('HOME', '/nonexistent')}/.config"
    return Path(above) / "git" / "ignore"


def _read(path: Path) -> bytes:
    """Return a regular file's bytes; nothing where there is none."""
    try:
        descriptor = os.open(path, _READ)
    except OSError:
        return b""
    try:
        return os.read(descriptor, _BYTES) if stat.S_ISREG(os.fstat(descriptor).st_mode) else b""
    finally:
        os.close(descriptor)
