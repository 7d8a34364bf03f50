"""The one place that reads the environment and measures the host."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, urlsplit

from runner.errors import MissingError, UsageError

RESERVED_MIB = 1024
"""Memory that is left to the host and the engine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Where things are and what this host has."""

    home: Path
    """`$FORKYARD_HOME`: store, repositories, volumes, policies, keys."""
    store_url: str
    """SQLAlchemy URL of the store."""
    engine_url: str
    """Docker engine, `unix:///var/run/docker.sock`."""
    memory_mib: int
    """Memory for sandboxes."""
    cpu_thousandths: int
    """Cores times 1000."""
    owner: tuple[int, int]
    """uid and gid that run inside."""
    environment: Mapping[str, str]
    """The runner's environment, from which policies pass names on."""
    least_free_mib: int
    """With less on a file system that runs fill, no run starts."""
    least_free_inodes: int
    mount_roots: tuple[str, ...] = ()
    """The operator's list: mounts of policies must lie below one of these."""


def load_settings(environment: Mapping[str, str] | None = None) -> Settings:
    """Read settings from an environment (default: the process's own).

    Raises:
        MissingError: nothing says where to keep things.
        UsageError: a variable has a value that cannot be used.
    """
    env = dict(os.environ if environment is None else environment)
    home = _find_home(env)
    return Settings(
        home=home,
        store_url=env.get("FORKYARD_STORE", f"sqlite:///{quote(str(home))}/store.db"),
        engine_url=_read_engine_url(env),
        memory_mib=_read_count(env, "FORKYARD_MEMORY_MIB", _measure_memory_mib(), least=1),
        least_free_mib=_read_count(env, "FORKYARD_LEAST_FREE_MIB", 2048),
        least_free_inodes=_read_count(env, "FORKYARD_LEAST_FREE_INODES", 20_000),
        cpu_thousandths=1000 * (os.cpu_count() or 1),
        owner=_find_owner(os.geteuid(), os.getegid()),
        environment=env,
        mount_roots=_read_folders(env, "FORKYARD_MOUNT_ROOTS"),
    )


def _find_home(env: Mapping[str, str]) -> Path:
    if env.get("FORKYARD_HOME"):
        return Path(env["FORKYARD_HOME"]).absolute()
    if env.get("XDG_DATA_HOME"):
        return Path(env["XDG_DATA_HOME"]) / "forkyard"
    if env.get("HOME"):
        return Path(env["HOME"]) / ".local/share/forkyard"
    raise MissingError("set FORKYARD_HOME to a folder that Forkyard may keep its state in")


def _read_engine_url(env: Mapping[str, str]) -> str:
    url = env.get("DOCKER_HOST") or "unix:///var/run/docker.sock"
    try:
        parts = urlsplit(url)
        usable = parts.scheme == "unix" or (
            parts.scheme in {"tcp", "http", "https"} and bool(parts.hostname and parts.port)
        )
    except ValueError:
        usable = False
    if not usable:
        raise UsageError(f"DOCKER_HOST is {url!r}: unix:///path or tcp://host:port is expected")
    return url


def _read_count(env: Mapping[str, str], name: str, default: int, *, least: int = 0) -> int:
    text = env.get(name) or str(default)
    # longer ones are no amounts, and Python refuses to read the longest
    if not (text.isascii() and text.isdecimal() and len(text) <= 18 and int(text) >= least):
        raise UsageError(f"{name} is {text!r}: a whole number from {least} up is expected")
    return int(text)


def _read_folders(env: Mapping[str, str], name: str) -> tuple[str, ...]:
    folders = tuple(filter(None, env.get(name, "").split(":")))
    for folder in folders:
        if not Path(folder).is_absolute():
            raise UsageError(
                f"{name} has {folder!r}: absolute folders, separated by colons, are expected"
            )
    return folders


def _find_owner(uid: int, gid: int) -> tuple[int, int]:
    """Return who runs inside: the operator, or 1000 where the runner is root."""
    return (1000, 1000) if uid == 0 else (uid, gid)


def _measure_memory_mib() -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemTotal:"):
            return max(int(line.split()[1]) // 1024 - RESERVED_MIB, 256)
    return 2048
