"""Answers what a policy would decide, without running anything: `policy explain`."""

from __future__ import annotations

from policies.action import Action, canonical_arguments
from policies.changes import Change, ChangeKind, Changes, EntryKind
from policies.decision import Decision
from policies.policy import Policy
from policies.rules import judge_action, judge_changes


def explain_action(policy: Policy, *, tool: str, path: str = "") -> Decision:
    """Judge a call of a tool on a path; an empty path is a call that names none."""
    action = Action(
        tool=tool,
        arguments=canonical_arguments({"path": path} if path else {}),
        paths=(path,) if path else (),
        network=policy.sandbox.network,
        mounts=policy.sandbox.mounts,
        limits=policy.sandbox.limits,
    )
    return judge_action(policy, action)


def explain_change(
    policy: Policy,
    *,
    path: str | bytes,
    kind: ChangeKind,
    entry: EntryKind = EntryKind.FILE,
    ignored: bool = False,
) -> Decision:
    """Judge one change of a path; `entry` is what it is now, or was before its deletion."""
    name = path if isinstance(path, bytes) else path.encode("utf-8", "surrogateescape")
    change = Change(path=name, kind=kind, entry=entry, ignored=ignored)
    return judge_changes(policy, Changes((change,)))
