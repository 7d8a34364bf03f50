"""What a container is given: limits, network, mounts and environment of one policy."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from policies.canonical import Json


class NetworkMode(StrEnum):
    """How far a container reaches."""

    #: no interface but loopback
    NONE = "none"
    #: only the named hosts, through the egress proxy
    ALLOWLIST = "allowlist"
    #: whatever the engine's default network reaches
    OPEN = "open"


class RootFilesystem(StrEnum):
    """Whether the image's own files may change."""

    #: the image stays as it is
    READ_ONLY = "read-only"
    #: changes go to a layer that is part of snapshots
    WRITABLE = "writable"


class DiskLimit(StrEnum):
    """How the disk limit of a task's volume is held."""

    #: a filesystem of that size: the kernel answers ENOSPC; needs root on the host
    HARD = "hard"
    #: sampled; a task may overshoot between two samples
    WATCHED = "watched"


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """Where a container may connect to."""

    mode: NetworkMode = NetworkMode.NONE
    hosts: tuple[str, ...] = ()
    """Entries of mode allowlist; empty = nothing."""

    def to_json(self) -> Json:
        """Return the form that is hashed into actions."""
        return {"mode": self.mode.value, "hosts": list(self.hosts)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """One host path shown to the container beside its workspace."""

    source: str
    """Absolute path on the host, below an operator's list."""
    target: str
    """Absolute path in the container."""
    writable: bool = False

    def to_json(self) -> Json:
        """Return the form that is hashed into actions."""
        mode = "rw" if self.writable else "ro"
        return {"source": self.source, "target": self.target, "mode": mode}


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one container, and one call in it, may use. Defaults are the built-in policy's."""

    memory_mib: int = 2048
    cpu_thousandths: int = 1000
    """1000 = one core."""
    pids: int = 256
    disk_mib: int = 4096
    inodes: int = 500_000
    open_files: int = 1024
    call_seconds: int = 120
    shown_kib: int = 16
    """How much of one output the model is shown."""
    evidence_mib: int = 16
    """How much of one output is kept."""

    def to_json(self) -> Json:
        """Return the form that is hashed into actions."""
        return {
            "memory_mib": self.memory_mib,
            "cpu_thousandths": self.cpu_thousandths,
            "pids": self.pids,
            "disk_mib": self.disk_mib,
            "inodes": self.inodes,
            "open_files": self.open_files,
            "call_seconds": self.call_seconds,
            "shown_kib": self.shown_kib,
            "evidence_mib": self.evidence_mib,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxPolicy:
    """All that the `sandbox` part of a policy file says."""

    network: Network = field(default_factory=Network)
    setup_network: tuple[NetworkMode, ...] = (NetworkMode.NONE,)
    rootfs: RootFilesystem = RootFilesystem.READ_ONLY
    mounts: tuple[Mount, ...] = ()
    env_pass: tuple[str, ...] = ()
    """Names taken from the runner's environment."""
    env_set: tuple[tuple[str, str], ...] = ()
    limits: Limits = field(default_factory=Limits)
    disk: DiskLimit = DiskLimit.HARD
