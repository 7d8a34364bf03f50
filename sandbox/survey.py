"""What an engine and its host are and have: facts for a person, and for what a policy needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineFacts:
    """An engine as it describes itself."""

    version: str
    api_version: str
    """The newest that it speaks."""
    cgroup_version: int
    cgroup_driver: str
    storage_driver: str
    backing_filesystem: str
    """Empty where the storage driver does not tell."""
    runc_version: str
    """Empty where the engine does not tell; so the next two."""
    containerd_version: str
    init_version: str
    kernel: str
    architecture: str
    cpus: int
    memory_mib: int
    security_options: tuple[str, ...]
    """As the engine names them: seccomp, apparmor, userns, rootless, cgroupns."""
    missing_limits: tuple[str, ...]
    """Limits that the engine's kernel cannot hold: memory, swap, processes, CPU."""

    def has(self, option: str) -> bool:
        """Tell whether a security option is on."""
        return option in self.security_options


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """Something that a host has or lacks."""

    name: str
    present: bool
    fact: str
    """Version, number or reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFacts:
    """A host, as far as sandboxes are concerned."""

    git_version: str
    """Empty when there is no git."""
    is_root: bool
    features: tuple[Feature, ...]
    disk_free_mib: int
    """Where volumes are made."""
    disk_total_mib: int
    disk_kind: str
    """Type of that file system; empty when it is not known."""
    memory_free_mib: int
    memory_total_mib: int

    def find(self, name: str) -> Feature | None:
        """Return a feature by name."""
        return next((one for one in self.features if one.name == name), None)


class HostSurvey(Protocol):
    """Looks at an engine and its host; makes nothing."""

    def describe_engine(self) -> EngineFacts:
        """Return what the engine says of itself.

        Raises:
            EngineUnavailableError: it does not answer.
        """
        ...

    def describe_host(self) -> HostFacts:
        """Return what this host has; no engine is needed."""
        ...
