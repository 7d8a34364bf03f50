"""What one tool call asks for, in the canonical form that rules and approvals look at."""

from __future__ import annotations

from dataclasses import dataclass, field

from policies.canonical import Json, canonical_json, digest_json
from policies.limits import Limits, Mount, Network


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """One tool call with everything that decides what it can do."""

    tool: str
    arguments: str
    """Canonical JSON text of the validated arguments."""
    paths: tuple[str, ...] = ()
    """Paths that the arguments name, relative to the workspace, normalised without following
    links; a path outside it starts with `/` or `../`."""
    cwd: str = "/workspace"
    environment: tuple[tuple[str, str], ...] = ()
    network: Network = field(default_factory=Network)
    mounts: tuple[Mount, ...] = ()
    limits: Limits = field(default_factory=Limits)

    @property
    def reaches_outside(self) -> bool:
        """Tell whether an effect may outlive a roll-back of the files."""
        return self.network.mode != "none" or any(mount.writable for mount in self.mounts)

    @property
    def digest(self) -> str:
        """`sha256:…` over the canonical form."""
        return digest_json(self.to_json())

    def to_json(self) -> Json:
        """Return the canonical form as a JSON value."""
        return {
            "tool": self.tool,
            "arguments": self.arguments,
            "cwd": self.cwd,
            "environment": [list(pair) for pair in self.environment],
            "network": self.network.to_json(),
            "mounts": [mount.to_json() for mount in self.mounts],
            "limits": self.limits.to_json(),
        }


def canonical_arguments(arguments: Json) -> str:
    """Return the canonical JSON text of a call's arguments.

    Raises:
        CanonicalFormError: the arguments hold a float or a lone surrogate.
    """
    return canonical_json(arguments).decode()
