"""Examines engine and host: what is there, what a policy needs, and whether each guard holds."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

from policies import DiskLimit, Limits, Policy
from runner.application.host_needs import Lack, find_lacks, find_untested, list_root_needs
from sandbox import (
    PROBE_LIMITS,
    Command,
    CommandResult,
    EngineFacts,
    Finding,
    GuardSettings,
    HostFacts,
    HostSurvey,
    Probe,
    SandboxError,
    SandboxHost,
    SandboxLostError,
    SandboxSpec,
    Source,
    Standing,
    UnsupportedError,
    make_probes,
    run_probe,
)

TASK_ID = "doctor"
DISK_GUARDS = ("disk", "inodes")

_PYTHON = Command(argv=("python3", "-I", "-c", ""), timeout_seconds=20)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeRoom:
    """Where probe containers are made: apart from the work of this home."""

    host: SandboxHost
    source: Source
    """Something small to start from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownImage:
    """A built-in image."""

    name: str
    image_id: str
    """Empty when it is not built."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Doctor:
    """What an examination uses."""

    survey: HostSurvey
    open_room: Callable[[], AbstractContextManager[ProbeRoom]]
    list_images: Callable[[], tuple[KnownImage, ...]]
    memory_mib: int
    """What this host has for sandboxes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardFinding:
    """What is known of one guard."""

    guard: str
    tries: str
    standing: Standing
    fact: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Examination:
    """All that was found."""

    policy: str
    limits: Limits
    """Of the probe containers; the policy's own may be larger."""
    engine: EngineFacts | None
    """None when none answers."""
    host: HostFacts
    images: tuple[KnownImage, ...]
    lacks: tuple[Lack, ...]
    """What the policy needs and is not here."""
    untested: tuple[str, ...]
    """What is here and was never tested."""
    root_needs: tuple[str, ...]
    guards: tuple[GuardFinding, ...]

    @property
    def failed(self) -> bool:
        """Tell whether a guard did not hold."""
        return any(one.standing is Standing.FAILED for one in self.guards)

    @property
    def lacking(self) -> bool:
        """Tell whether something is missing, or a guard could not be tried."""
        return bool(self.lacks) or any(
            one.standing is Standing.NOT_POSSIBLE for one in self.guards
        )


def examine_host(policy: Policy, image: str, *, doctor: Doctor) -> Examination:
    """Look at engine and host, and try to break each guard that the policy asks for.

    Args:
        policy: whose sandbox is examined.
        image: reference of an image with python3, for the probe containers.
        doctor: what looks and tries.
    """
    host = doctor.survey.describe_host()
    engine, problem = _describe_engine(doctor.survey)
    lacks = find_lacks(policy.sandbox, engine=engine, host=host, memory_mib=doctor.memory_mib)
    settings = _make_settings(policy, has_hard_disk=not any(one.is_disk for one in lacks))
    probes = make_probes(settings)
    found: dict[str, Finding] = {}
    if engine is not None:
        problem = _prove_all(policy, image, settings=settings, doctor=doctor, found=found)
    if problem:
        lacks = (Lack(what="engine" if engine is None else "probes", reason=problem), *lacks)
    missing = Finding(Standing.NOT_POSSIBLE, "not tried; see what is missing")
    for lack in (one for one in lacks if one.is_disk):
        found.update(dict.fromkeys(DISK_GUARDS, Finding(Standing.NOT_POSSIBLE, lack.reason)))
    return Examination(
        policy=policy.name,
        limits=settings.limits,
        engine=engine,
        host=host,
        images=() if engine is None else doctor.list_images(),
        lacks=lacks,
        untested=() if engine is None else find_untested(engine),
        root_needs=list_root_needs(host),
        guards=tuple(_pair(probe, found.get(probe.guard, missing)) for probe in probes),
    )


def _pair(probe: Probe, finding: Finding) -> GuardFinding:
    return GuardFinding(
        guard=probe.guard, tries=probe.tries, standing=finding.standing, fact=finding.fact
    )


def _describe_engine(survey: HostSurvey) -> tuple[EngineFacts | None, str]:
    """Return what the engine is, or why that is not known."""
    try:
        return survey.describe_engine(), ""
    except SandboxError as error:
        return None, str(error)


def _make_settings(policy: Policy, *, has_hard_disk: bool) -> GuardSettings:
    sandbox = policy.sandbox
    return GuardSettings(
        limits=lower_limits(sandbox.limits),
        disk=sandbox.disk if has_hard_disk else DiskLimit.WATCHED,
        network=sandbox.network,
        mounts=sandbox.mounts,
    )


def lower_limits(limits: Limits) -> Limits:
    """Return limits that are as strict as the policy's and quick to reach."""
    most = PROBE_LIMITS
    return replace(
        limits,
        memory_mib=min(limits.memory_mib, most.memory_mib),
        cpu_thousandths=min(limits.cpu_thousandths, most.cpu_thousandths),
        pids=min(limits.pids, most.pids),
        disk_mib=min(limits.disk_mib, most.disk_mib),
        inodes=min(limits.inodes, most.inodes),
        open_files=min(limits.open_files, most.open_files),
    )


def _prove_all(
    policy: Policy,
    image: str,
    *,
    settings: GuardSettings,
    doctor: Doctor,
    found: dict[str, Finding],
) -> str:
    """Try guard after guard; return what stopped us from trying the rest or from cleaning up."""
    waiting = deque(make_probes(settings))
    try:
        with doctor.open_room() as room:
            spec = _make_spec(policy, image, settings=settings, room=room)
            while waiting:
                found.update(_prove_some(waiting, room.host, spec))
    except SandboxError as error:
        return str(error)
    return ""


def _prove_some(
    waiting: deque[Probe], host: SandboxHost, spec: SandboxSpec
) -> Iterator[tuple[str, Finding]]:
    """Try guards in one container until it is lost; the guard that lost it has failed."""
    with host.open_sandbox(spec) as sandbox:
        _check_python(sandbox.run(_PYTHON))
        while waiting:
            probe = waiting.popleft()
            try:
                yield probe.guard, run_probe(probe, sandbox)
            except SandboxLostError as error:
                yield probe.guard, Finding(Standing.FAILED, f"the container was lost: {error}")
                return


def _check_python(result: CommandResult) -> None:
    """Make sure that probes can run at all: what they cannot run proves nothing.

    Raises:
        UnsupportedError: they cannot.
    """
    if not result.ok:
        ended = (
            result.ending.value if result.exit_code is None else f"exit code {result.exit_code}"
        )
        raise UnsupportedError(
            f"the image's python3, which the probes need, does not run ({ended}): "
            "use the image `python`, or a policy whose limits let it start"
        )


def _make_spec(
    policy: Policy, image: str, *, settings: GuardSettings, room: ProbeRoom
) -> SandboxSpec:
    imported = room.host.import_source(room.source)
    return SandboxSpec(
        task_id=TASK_ID,
        attempt=1,
        image=room.host.resolve_image(image),
        start=room.host.start_snapshot(imported, task_id=TASK_ID),
        limits=settings.limits,
        network=settings.network,
        rootfs=policy.sandbox.rootfs,
        disk=settings.disk,
        mounts=settings.mounts,
        environment=policy.sandbox.env_set,
    )
