"""A policy's `source`: the merged document in one canonical form, written out whole.

It has the shape of a policy file without examples, but for `limits.cpu_thousandths` in place of
`cpus`: no floats in hashed content. A policy can be made again from it alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal

from policies.canonical import Json, canonical_json, digest_json
from policies.decision import Verdict
from policies.document import (
    ChangePart,
    CommandPart,
    DefaultPart,
    Document,
    EnvironmentPart,
    LimitsPart,
    NetworkPart,
    SandboxPart,
)
from policies.errors import PolicyFileError
from policies.layer import make_layer
from policies.limits import Limits, Mount, Network, NetworkMode, SandboxPolicy
from policies.policy import ChangeRule, CommandRule, Policy
from policies.yaml_tree import Plain, YamlTree

SOURCE_NAME = "merged policy"
"""What errors name in place of a file."""


def make_policy(document: Document, *, name: str) -> Policy:
    """Make a policy of a merged document; strict defaults stand for keys that nobody wrote."""
    default = document.default or DefaultPart()
    return seal_policy(
        Policy(
            name=document.name or name,
            tools=document.tools or (),
            sandbox=_make_sandbox(document.sandbox or SandboxPart()),
            commands=tuple(_make_command_rule(part) for part in document.commands or ()),
            changes=tuple(_make_change_rule(part) for part in document.changes or ()),
            default_command=default.commands or Verdict.ALLOW,
            default_change=default.changes or Verdict.ALLOW,
            digest="",
        )
    )


def seal_policy(policy: Policy) -> Policy:
    """Return the policy with `source` and `digest` as its other fields have it."""
    source = _make_source(policy)
    return replace(policy, source=source, digest=digest_json(source))


def parse_policy(source: Json) -> Policy:
    """Make the policy again whose `source` this is.

    Raises:
        PolicyFileError: it is not the source of a policy of this release.
        CanonicalFormError: it holds something that canonical JSON does not carry.
    """
    given = canonical_json(source)
    layer = make_layer(YamlTree(SOURCE_NAME, _read_source(source)))
    policy = make_policy(layer.document, name="")
    if canonical_json(policy.source) != given:
        raise PolicyFileError(SOURCE_NAME, 1, "", "is not whole or not in its canonical form")
    return policy


def _make_sandbox(part: SandboxPart) -> SandboxPolicy:
    written = part.env or EnvironmentPart()
    standard = SandboxPolicy()
    return SandboxPolicy(
        network=_make_network(part.network or NetworkPart()),
        setup_network=standard.setup_network if part.setup_network is None else part.setup_network,
        rootfs=part.rootfs or standard.rootfs,
        mounts=tuple(
            Mount(source=mount.source, target=mount.target, writable=mount.mode == "rw")
            for mount in part.mounts or ()
        ),
        env_pass=written.pass_ or (),
        env_set=tuple(sorted((written.set or {}).items())),
        limits=_make_limits(part.limits or LimitsPart()),
        disk=part.disk or standard.disk,
    )


def _make_network(part: NetworkPart) -> Network:
    mode = part.mode or NetworkMode.NONE
    hosts = part.hosts or () if mode is NetworkMode.ALLOWLIST else ()
    return Network(mode=mode, hosts=hosts)


def _make_limits(part: LimitsPart) -> Limits:
    numbers = part.model_dump(exclude_none=True, exclude={"cpus"})
    if part.cpus is not None:
        numbers["cpu_thousandths"] = int(part.cpus * 1000)
    return replace(Limits(), **numbers)


def _make_command_rule(part: CommandPart) -> CommandRule:
    return CommandRule(
        id=part.id,
        tools=part.match.tool,
        paths=part.match.paths,
        then=part.then,
        because=part.because,
    )


def _make_change_rule(part: ChangePart) -> ChangeRule:
    return ChangeRule(
        id=part.id,
        paths=part.match.paths,
        kinds=part.match.kinds,
        with_ignored=part.match.with_ignored,
        then=part.then,
        because=part.because,
    )


def _make_source(policy: Policy) -> Json:
    return {
        "version": 1,
        "name": policy.name,
        "tools": list(policy.tools),
        "sandbox": _show_sandbox(policy.sandbox),
        "commands": [_show_command_rule(rule) for rule in policy.commands],
        "changes": [_show_change_rule(rule) for rule in policy.changes],
        "default": {
            "commands": policy.default_command.value,
            "changes": policy.default_change.value,
        },
    }


def _show_sandbox(sandbox: SandboxPolicy) -> Json:
    network: dict[str, Json] = {"mode": sandbox.network.mode.value}
    if sandbox.network.mode is NetworkMode.ALLOWLIST:
        network["hosts"] = list(sandbox.network.hosts)
    return {
        "network": network,
        "setup_network": [mode.value for mode in sandbox.setup_network],
        "rootfs": sandbox.rootfs.value,
        "mounts": [mount.to_json() for mount in sandbox.mounts],
        "env": {"pass": list(sandbox.env_pass), "set": dict(sandbox.env_set)},
        "limits": sandbox.limits.to_json(),
        "disk": sandbox.disk.value,
    }


def _show_command_rule(rule: CommandRule) -> Json:
    match: dict[str, Json] = {}
    if rule.tools:
        match["tool"] = list(rule.tools)
    if rule.paths:
        match["paths"] = list(rule.paths)
    return {"id": rule.id, "match": match, "then": rule.then.value, "because": rule.because}


def _show_change_rule(rule: ChangeRule) -> Json:
    match: dict[str, Json] = {}
    if rule.paths:
        match["paths"] = list(rule.paths)
    if rule.kinds:
        match["kinds"] = [kind.value for kind in rule.kinds]
    if not rule.with_ignored:
        match["with_ignored"] = False
    return {"id": rule.id, "match": match, "then": rule.then.value, "because": rule.because}


def _read_source(source: Json) -> Plain:
    """Return a source as the values that a policy file of the same meaning has."""
    value = _as_plain(source)
    sandbox = value.get("sandbox") if isinstance(value, Mapping) else None
    limits = sandbox.get("limits") if isinstance(sandbox, Mapping) else None
    if not (
        isinstance(value, Mapping) and isinstance(sandbox, Mapping) and isinstance(limits, Mapping)
    ):
        raise PolicyFileError(SOURCE_NAME, 1, "sandbox.limits", "is missing")
    numbers = {key: number for key, number in limits.items() if key != "cpu_thousandths"}
    thousandths = limits.get("cpu_thousandths")
    if isinstance(thousandths, int):
        numbers["cpus"] = Decimal(thousandths) / 1000
    return {**value, "sandbox": {**sandbox, "limits": numbers}}


def _as_plain(value: Json) -> Plain:
    if value is None:
        raise PolicyFileError(SOURCE_NAME, 1, "", "holds null")
    if isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, Mapping):
        return {key: _as_plain(member) for key, member in value.items()}
    if isinstance(value, Sequence):
        return tuple(_as_plain(member) for member in value)
    raise PolicyFileError(SOURCE_NAME, 1, "", f"holds a value of type {type(value).__name__}")
