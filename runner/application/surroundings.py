"""What the model is told of its surroundings, as world-state sections."""

from __future__ import annotations

import shlex

from policies import ChangeKind, ChangeRule, Policy, Verdict
from runner.application.session import Session
from runner.domain.world_state import Section, make_budget_section

NETWORK_WORDS = {
    "none": "There is no network: nothing can be downloaded or reached.",
    "open": "There is a network.",
    "allowlist": "Only these hosts can be reached, through the proxy in the environment: ",
}

KIND_WORDS = {
    ChangeKind.ADDED: "added",
    ChangeKind.MODIFIED: "modified",
    ChangeKind.DELETED: "deleted",
    ChangeKind.MODE: "given other permissions",
}


def list_sections(session: Session) -> list[Section]:
    """Return the sections as they are now, in a fixed order."""
    sections = [_environment(session), *_setup(session), _permissions(session.policy)]
    budget = make_budget_section(session.task.spec.budget.to_budget(), session.current_usage())
    if budget is not None:
        sections.append(budget)
    return sections


def _environment(session: Session) -> Section:
    sandbox = session.policy.sandbox
    network = NETWORK_WORDS[sandbox.network.mode.value] + ", ".join(sandbox.network.hosts)
    limits = sandbox.limits
    return Section(
        name="environment.container",
        value={
            "image": session.task.spec.image,
            "network": sandbox.network.to_json(),
            "limits": limits.to_json(),
        },
        text=(
            "Your files are in /workspace, a git repository; HOME is /home/agent; the rest of the "
            f"container is {sandbox.rootfs.value}. {network} A call may take "
            f"{limits.call_seconds} s; memory {limits.memory_mib} MiB, {limits.pids} processes, "
            f"{limits.open_files} open files in each, disk {limits.disk_mib} MiB in "
            f"{limits.inodes} files. A process that outlives its call is killed."
        ),
    )


def _setup(session: Session) -> list[Section]:
    setup = session.task.spec.setup
    if setup is None:
        return []
    return [
        Section(
            name="environment.setup",
            value={"argv": list(setup.argv)},
            text=(
                f"Before you began, this was run in /workspace: {shlex.join(setup.argv)}\n"
                "What it left in /workspace, HOME and /tmp is there. What it added to /workspace "
                "is not part of your patch."
            ),
        )
    ]


def _permissions(policy: Policy) -> Section:
    denied = [_tell_rule(rule) for rule in policy.changes if rule.then is Verdict.DENY]
    told = "\n".join(denied) or "No change of files is forbidden."
    return Section(
        name="permissions.policy",
        value={"policy": policy.name, "digest": policy.digest},
        text=f"What may change; a call that breaks a rule is rolled back as a whole:\n{told}",
    )


def _tell_rule(rule: ChangeRule) -> str:
    kinds = ", ".join(KIND_WORDS[kind] for kind in rule.kinds) or "changed"
    paths = ", ".join(rule.paths) or "any path"
    return f"- {paths} must not be {kinds}. {rule.because}".rstrip()
