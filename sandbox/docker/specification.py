"""What a container is created from: a pure function of a SandboxSpec, line by line justified.

No capabilities. Commands run as the operator's user, the two residents (see `processes`) as one
that owns nothing: what shares neither uid nor privileges can neither signal nor write them. What
is written here is asserted on the created container before it starts (see `list_drift`).
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from policies import Json, Mount, NetworkMode, RootFilesystem
from sandbox.errors import UnsupportedError
from sandbox.sandbox import SandboxSpec

INSTANCE_LABEL = "forkyard.instance"
TASK_LABEL = "forkyard.task"
ATTEMPT_LABEL = "forkyard.attempt"
PURPOSE_LABEL = "forkyard.purpose"

WORKSPACE = "/workspace"
HOME = "/home/agent"
TEMPORARY = "/tmp"  # noqa: S108 - the container's own, a directory of the task's volume
BASE_REPOSITORY = "/forkyard/base.git"

_NOBODY = 65534  # the kernel's overflowuid; also the last one that a rootless engine maps
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_KEEPER = ("/bin/sleep", "infinity")  # absolute: PATH begins with folders that the agent writes
_PATH = (
    f"{HOME}/.local/bin:{HOME}/.npm-global/bin:"
    "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
)
_ENVIRONMENT = (
    ("PATH", _PATH),
    ("HOME", HOME),
    ("LANG", "C.UTF-8"),
    ("TZ", "UTC"),
    ("PYTHONHASHSEED", "0"),
    ("PYTHONDONTWRITEBYTECODE", "1"),
    ("PIP_BREAK_SYSTEM_PACKAGES", "1"),  # user installs go to HOME; the root is read-only anyway
    ("NPM_CONFIG_PREFIX", f"{HOME}/.npm-global"),
)
_MIB = 1024 * 1024
_SHM_BYTES = 16 * _MIB
_IMAGE_VOLUME_BYTES = 16 * _MIB
_STOP_SECONDS = 1
_IPV6_OFF = ("net.ipv6.conf.all.disable_ipv6", "1")
# System V objects outlive the processes that made them: they would fill the memory of the
# commands that follow, and no snapshot knows of them.
_FEW_KERNEL_OBJECTS = (
    ("kernel.shm_rmid_forced", "1"),  # a segment goes with the last process that has it
    ("kernel.msgmni", "64"),  # queues, 16 KiB each
    ("kernel.sem", "250 32000 100 128"),  # the old default; 128 sets, 32,000 semaphores in all
)
_TAKEN = (WORKSPACE, HOME, TEMPORARY, "/forkyard", "/run", "/dev", "/proc", "/sys")

# What a hardened container must not have; the engine says "nothing" in several ways.
_NEVER: dict[str, Json] = {
    "Privileged": False,
    "CapAdd": None,
    "Binds": None,
    "Devices": None,
    "DeviceRequests": None,
    "VolumesFrom": None,
    "PortBindings": None,
    "PidMode": "",
    "UTSMode": "",
    "UsernsMode": "",
    "GroupAdd": None,
    "Links": None,
    "PublishAllPorts": False,
}
_CHECKED_CONFIG = ("Image", "User", "WorkingDir", "Entrypoint", "Cmd", "Healthcheck", "Tty")


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerPlace:
    """What the host adds to a spec: identity, owner and where the files are."""

    instance_id: str
    uid: int
    gid: int
    files: str
    """The volume's directory on the host, holding workspace, home and tmp."""
    base_repository: str
    """The one repository of ours that the container sees, on the host."""
    image_volumes: tuple[str, ...] = ()
    """Paths that the image declares as VOLUME."""
    cpus: int = 1024
    """How many the engine has; it refuses a limit above."""
    has_ipv6: bool = True
    """The host's kernel knows IPv6: only then can it be switched off."""


def make_create_body(spec: SandboxSpec, place: ContainerPlace) -> dict[str, Json]:
    """Return the engine's request body for a container.

    Raises:
        UnsupportedError: the spec asks for what this implementation cannot enforce.
    """
    refuse_unenforced(spec)
    return {
        "Image": spec.image,
        "User": make_resident_user(place),
        "WorkingDir": "/",  # constant: CVE-2024-21626 used a chosen one
        "Hostname": "sandbox",
        "Env": [f"{name}={value}" for name, value in make_environment(spec)],
        "Entrypoint": list(_KEEPER),
        "Cmd": [],
        "AttachStdin": False,
        "AttachStdout": False,
        "AttachStderr": False,
        "Tty": False,
        "StopTimeout": _STOP_SECONDS,
        "Healthcheck": {"Test": ["NONE"]},  # an image's own would run beside the commands
        "Labels": make_labels(spec, instance_id=place.instance_id),
        "HostConfig": _make_host_config(spec, place),
    }


def make_resident_user(place: ContainerPlace) -> str:
    """Return uid and gid of init and keeper: never those of the commands."""
    resident = _NOBODY - 1 if place.uid == _NOBODY else _NOBODY
    return f"{resident}:{resident}"


def make_labels(spec: SandboxSpec, *, instance_id: str) -> dict[str, Json]:
    """Return the labels that say whose a container is."""
    return {
        INSTANCE_LABEL: instance_id,
        TASK_LABEL: spec.task_id,
        ATTEMPT_LABEL: str(spec.attempt),
        PURPOSE_LABEL: spec.purpose,
    }


def make_name(spec: SandboxSpec, *, instance_id: str, token: str) -> str:
    """Return a container's name; the token keeps a second try from meeting the first."""
    return f"forkyard-{instance_id}-{spec.task_id}-{spec.purpose}-{spec.attempt}-{token}"


def make_environment(spec: SandboxSpec) -> tuple[tuple[str, str], ...]:
    """Return the whole environment: ours, then what the policy sets."""
    return tuple({**dict(_ENVIRONMENT), **dict(spec.environment)}.items())


def list_drift(body: Mapping[str, Any], found: Mapping[str, Any]) -> tuple[str, ...]:
    """Return where a created container differs from what was asked for.

    Args:
        body: what `make_create_body` returned.
        found: the engine's description of the container.
    """
    config, host = found["Config"], found["HostConfig"]
    wanted_config = {name: body[name] for name in _CHECKED_CONFIG}
    wanted_host = {**_NEVER, **body["HostConfig"]}
    drift = [*_differences("Config", wanted_config, config)]
    drift += _differences("HostConfig", wanted_host, host)
    drift += [f"Config.Env lacks {one!r}" for one in body["Env"] if one not in config["Env"]]
    drift += [
        f"Config.Labels lack {name!r}"
        for name, value in body["Labels"].items()
        if config["Labels"].get(name) != value
    ]
    asked = {mount["Target"] for mount in body["HostConfig"]["Mounts"]}
    seen = {mount["Destination"] for mount in found["Mounts"]}
    drift += [f"mount {one!r} was not asked for" for one in sorted(seen - asked)]
    return tuple(drift)


def _differences(
    where: str, wanted: Mapping[str, Any], found: Mapping[str, Any]
) -> tuple[str, ...]:
    return tuple(
        f"{where}.{name} is {found.get(name)!r}"
        for name, value in wanted.items()
        if (found.get(name) or None) != (value or None)
    )


def _make_host_config(spec: SandboxSpec, place: ContainerPlace) -> dict[str, Json]:
    memory_bytes = spec.limits.memory_mib * _MIB
    return {
        "NetworkMode": "none" if spec.network.mode is NetworkMode.NONE else "bridge",
        "ReadonlyRootfs": True,
        "CapDrop": ["ALL"],
        "SecurityOpt": ["no-new-privileges:true", f"seccomp={read_seccomp_profile()}"],
        "PidsLimit": spec.limits.pids,
        "Memory": memory_bytes,
        "MemorySwap": memory_bytes,  # the same: no swap
        "OomScoreAdj": 500,  # sooner than anything of the host
        "NanoCpus": min(spec.limits.cpu_thousandths, place.cpus * 1000) * 1_000_000,
        "Ulimits": [
            # A core dump may be handed to a program on the host (core_pattern).
            {"Name": "core", "Soft": 0, "Hard": 0},
            {"Name": "nofile", "Soft": spec.limits.open_files, "Hard": spec.limits.open_files},
        ],
        "IpcMode": "private",
        "CgroupnsMode": "private",
        "LogConfig": {"Type": "none", "Config": {}},
        "RestartPolicy": {"Name": "no", "MaximumRetryCount": 0},
        "AutoRemove": False,
        "Init": True,  # without it orphans stay as zombies and eat the limit on processes
        "Tmpfs": {"/run": "rw,nosuid,nodev,noexec,size=1m,nr_inodes=64,mode=1777"},
        "ShmSize": _SHM_BYTES,
        "Sysctls": dict([*_FEW_KERNEL_OBJECTS, *([_IPV6_OFF] if place.has_ipv6 else [])]),
        "Mounts": _make_mounts(spec, place),
    }


def _make_mounts(spec: SandboxSpec, place: ContainerPlace) -> list[Json]:
    own = (
        Mount(source=f"{place.files}/workspace", target=WORKSPACE, writable=True),
        Mount(source=f"{place.files}/home", target=HOME, writable=True),
        Mount(source=f"{place.files}/tmp", target=TEMPORARY, writable=True),  # noqa: S108 - as above
        Mount(source=place.base_repository, target=BASE_REPOSITORY),
    )
    covered = {mount.target for mount in (*own, *spec.mounts)}
    # A volume that the image declares would be an anonymous one, outside the disk limit.
    volatile = [path for path in place.image_volumes if path not in covered]
    return [
        *(_make_bind(mount) for mount in (*own, *spec.mounts)),
        *(_make_tmpfs(path) for path in volatile),
    ]


def _make_bind(mount: Mount) -> Json:
    # Never the "binds" strings: with those the engine creates a missing source.
    read_only: dict[str, Json] = {} if mount.writable else {"ReadOnly": True}
    return {
        "Type": "bind",
        "Source": mount.source,
        "Target": mount.target,
        "BindOptions": {"Propagation": "rprivate"},
        **read_only,
    }


def _make_tmpfs(path: str) -> Json:
    options: Json = {"SizeBytes": _IMAGE_VOLUME_BYTES, "Mode": 0o1777}
    return {"Type": "tmpfs", "Target": path, "TmpfsOptions": options}


def refuse_unenforced(spec: SandboxSpec) -> None:
    """Check a spec before anything is made.

    Raises:
        UnsupportedError: it asks for what this implementation cannot enforce.
    """
    if spec.network.mode is NetworkMode.ALLOWLIST:
        raise UnsupportedError("network mode 'allowlist' needs the egress proxy")
    if spec.rootfs is not RootFilesystem.READ_ONLY:
        raise UnsupportedError("a writable root file system is not part of snapshots here")
    for name in (spec.task_id, spec.purpose):
        if not _NAME.fullmatch(name):
            raise UnsupportedError(f"{name!r} cannot be part of a container's name")
    for mount in spec.mounts:
        _refuse_mount(mount)


def _refuse_mount(mount: Mount) -> None:
    for path in (mount.source, mount.target):
        if not path.startswith("/") or path == "/" or posixpath.normpath(path) != path:
            raise UnsupportedError(f"{path!r} is not a plain absolute path for a mount")
    if any(mount.target == one or mount.target.startswith(f"{one}/") for one in _TAKEN):
        raise UnsupportedError(f"mount target {mount.target!r} is taken")


@cache
def read_seccomp_profile() -> str:
    """Return our seccomp profile (default deny) as the engine takes it."""
    return resources.files("sandbox.docker").joinpath("seccomp.json").read_text("utf-8")
