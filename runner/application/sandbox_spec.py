"""From a task's policy to what a sandbox is made from."""

from __future__ import annotations

from dataclasses import replace

from policies import Network, NetworkMode
from runner.application.session import Session
from runner.domain.task import SetupSpec
from sandbox import LaidSource, SandboxSpec, Snapshot


def make_agent_spec(session: Session, image_id: str) -> SandboxSpec:
    """Return the sandbox that a run's calls go to: it starts on the session's last snapshot."""
    return _make_spec(session, image_id, purpose="agent", start=session.files, lay=None)


def make_setup_spec(
    session: Session, image_id: str, *, start: Snapshot, setup: SetupSpec
) -> SandboxSpec:
    """Return the sandbox of a setup: as the agent's, but with the network that it asks for."""
    spec = _make_spec(session, image_id, purpose="setup", start=start, lay=None)
    return replace(spec, network=Network(mode=NetworkMode(setup.network)))


def make_verify_spec(
    session: Session, image_id: str, *, start: Snapshot, lay: LaidSource | None
) -> SandboxSpec:
    """Return the fresh sandbox of a verification."""
    return _make_spec(session, image_id, purpose="verify", start=start, lay=lay)


def _make_spec(
    session: Session, image_id: str, *, purpose: str, start: Snapshot, lay: LaidSource | None
) -> SandboxSpec:
    policy = session.policy.sandbox
    passed = session.services.passed_environment
    environment = dict(policy.env_set)
    environment.update({name: passed[name] for name in policy.env_pass if name in passed})
    return SandboxSpec(
        task_id=session.task.task_id,
        purpose=purpose,
        attempt=session.run.attempt,
        image=image_id,
        start=start,
        lay=lay,
        limits=policy.limits,
        network=policy.network,
        rootfs=policy.rootfs,
        disk=policy.disk,
        mounts=policy.mounts,
        environment=tuple(sorted(environment.items())),
    )
