"""A loaded policy: tools, sandbox, command rules, change rules, and what is answered otherwise."""

from __future__ import annotations

from dataclasses import dataclass

from policies.canonical import Json
from policies.changes import ChangeKind
from policies.decision import Verdict
from policies.limits import SandboxPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandRule:
    """A rule about a tool call before it runs. Empty fields match everything."""

    id: str
    tools: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    """Glob patterns; the rule matches when one path of the action matches one of them."""
    then: Verdict
    because: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeRule:
    """A rule about what really changed. Empty fields match everything."""

    id: str
    paths: tuple[str, ...] = ()
    kinds: tuple[ChangeKind, ...] = ()
    with_ignored: bool = True
    """False: files that the base's ignore rules keep out of the patch do not match."""
    then: Verdict
    because: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What may be asked, what may change, and what the container is given."""

    name: str
    tools: tuple[str, ...]
    sandbox: SandboxPolicy
    commands: tuple[CommandRule, ...] = ()
    changes: tuple[ChangeRule, ...] = ()
    default_command: Verdict = Verdict.ALLOW
    default_change: Verdict = Verdict.ALLOW
    source: Json = None
    """The merged document that this policy was made from, in canonical form."""
    digest: str
    """`sha256:…` over `source`; bound into every action."""
