"""What a policy needs of an engine and a host, and what of it is missing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from policies import DiskLimit, SandboxPolicy
from sandbox import EngineFacts, HostFacts

TESTED_ENGINE = "20.10"
TESTED_CGROUP_VERSION = 1

_DISK_FEATURES = ("loop devices", "mkfs.ext4")


@dataclass(frozen=True, slots=True, kw_only=True)
class Lack:
    """Something that a policy needs and that is not here."""

    what: str
    reason: str
    """Also the way out, where there is one."""
    is_disk: bool = False
    """Because of it a hard disk limit cannot be held at all."""


def find_lacks(
    policy: SandboxPolicy, *, engine: EngineFacts | None, host: HostFacts, memory_mib: int
) -> tuple[Lack, ...]:
    """Return what a policy asks for and this engine or host cannot do.

    Args:
        policy: what a container is given.
        engine: None when none answers: what it would have to do is then left out.
        host: this host.
        memory_mib: what this host has for sandboxes.
    """
    lacks = [*_find_host_lacks(policy, host=host, memory_mib=memory_mib)]
    if engine is not None:
        lacks += _find_engine_lacks(engine)
    return tuple(lacks)


def find_untested(engine: EngineFacts) -> tuple[str, ...]:
    """Return in what an engine differs from those that were tested."""
    found = []
    if not engine.version.startswith(f"{TESTED_ENGINE}."):
        found.append(f"engine {engine.version}: tested is {TESTED_ENGINE}")
    if engine.cgroup_version != TESTED_CGROUP_VERSION:
        found.append(
            f"control groups version {engine.cgroup_version}: tested is {TESTED_CGROUP_VERSION}"
        )
    found += [
        f"engine with {option}: tested without"
        for option in ("rootless", "userns")
        if engine.has(option)
    ]
    return tuple(found)


def list_root_needs(host: HostFacts) -> tuple[str, ...]:
    """Return what only root can do on this host; nothing when we are root."""
    if host.is_root:
        return ()
    return (
        "`disk: hard`: a file system of the policy's size, mounted for each task",
        "files of other users: only root can take them over or delete them",
    )


def _find_host_lacks(policy: SandboxPolicy, *, host: HostFacts, memory_mib: int) -> Iterator[Lack]:
    if not host.git_version:
        yield Lack(what="git", reason="not installed; sources and snapshots need it")
    if policy.disk is DiskLimit.HARD:
        yield from _find_disk_lacks(host)
    limits = policy.limits
    if limits.disk_mib > host.disk_free_mib:
        reason = f"{host.disk_free_mib} MiB are free; the policy promises {limits.disk_mib}"
        yield Lack(what="disk space", reason=reason)
    if limits.memory_mib > memory_mib:
        reason = f"{memory_mib} MiB are there for sandboxes; the policy gives {limits.memory_mib}"
        yield Lack(what="memory", reason=reason)


def _find_disk_lacks(host: HostFacts) -> Iterator[Lack]:
    way_out = "`disk: watched` (policy `repair-watched`) samples the use instead"
    if not host.is_root:
        reason = f"a hard disk limit needs root on this host; {way_out}"
        yield Lack(what="hard disk limit", reason=reason, is_disk=True)
    for name in _DISK_FEATURES:
        feature = host.find(name)
        if feature is None or not feature.present:
            told = "unknown" if feature is None else feature.fact
            reason = f"a hard disk limit needs {name}: {told}; {way_out}"
            yield Lack(what=name, reason=reason, is_disk=True)


def _find_engine_lacks(engine: EngineFacts) -> Iterator[Lack]:
    if not engine.has("seccomp"):
        reason = "the engine filters no system calls; its kernel or build lacks seccomp"
        yield Lack(what="seccomp", reason=reason)
    for name in engine.missing_limits:
        reason = f"the engine cannot limit {name}: a controller of its control groups is off"
        yield Lack(what=f"limit on {name}", reason=reason)
