"""Builders for tests of `doctor`: facts, answers of the program inside, and a host in memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from policies import DiskLimit, Limits, Network, Policy, SandboxPolicy
from runner.application.examine_host import Doctor, KnownImage, ProbeRoom
from sandbox import (
    CappedOutput,
    CommandResult,
    Ending,
    EngineFacts,
    EngineUnavailableError,
    Feature,
    GuardSettings,
    HostFacts,
    Source,
    SourceKind,
)
from sandbox.testing import MemorySandboxHost
from sandbox.testing_programs import FakeProgram, ProgramCall, ProgramOutcome

LIMITS = Limits(
    memory_mib=128, cpu_thousandths=1000, pids=64, disk_mib=64, inodes=1000, open_files=256
)
ENGINE = EngineFacts(
    version="20.10.24",
    api_version="1.41",
    cgroup_version=1,
    cgroup_driver="cgroupfs",
    storage_driver="overlay2",
    backing_filesystem="extfs",
    runc_version="1.1.5",
    containerd_version="1.6.20",
    init_version="0.19.0",
    kernel="6.1",
    architecture="x86_64",
    cpus=2,
    memory_mib=8000,
    security_options=("seccomp",),
    missing_limits=(),
)
HOST = HostFacts(
    git_version="2.39.5",
    is_root=True,
    features=(
        Feature(name="loop devices", present=True, fact="/dev/loop-control"),
        Feature(name="mkfs.ext4", present=True, fact="/usr/sbin/mkfs.ext4"),
    ),
    disk_free_mib=50_000,
    disk_total_mib=100_000,
    disk_kind="ext4",
    memory_free_mib=7000,
    memory_total_mib=8000,
)
HELD = {
    "root": "make a folder in /\tEROFS",
    "kernel": "read /proc/kcore\tEACCES",
    "names": "resolve example.com\tEAI_AGAIN",
    "connect": "interfaces beside loopback\tnone",
    "sockets": "connect to /run/docker.sock\tENOENT",
    "privileges": "CapEff\tnone",
    "surface": "bpf\tEPERM",
    "processes": "processes of others\tnone",
    "core": "crashes go to\ta file\ncrash\tno core dump",
    "survivors": "it had lived\tyes\nit still writes\tno\nprocesses left\tnone",
    "files": "refused\tEMFILE after 250",
    "clean": "MiB beside the volume\t16",
}
"""What the program inside says where a guard holds, by its attempt."""


def answer(text: str = "", *, whole: bool = True, **changes: object) -> CommandResult:
    """Return the result of a probe's command that printed some lines."""
    said = f"{text}\nend\n" if whole else f"{text}\n"
    values = {
        "ending": Ending.EXITED,
        "exit_code": 0,
        "stdout": CappedOutput(head=said.encode(), total_bytes=len(said)),
        **changes,
    }
    return CommandResult(**values)


def make_settings(**changes: object) -> GuardSettings:
    values = {"limits": LIMITS, "disk": DiskLimit.HARD, "network": Network(), **changes}
    return GuardSettings(**values)


def make_policy(**changes: object) -> Policy:
    sandbox = replace(SandboxPolicy(), **changes)
    return Policy(name="repair", tools=(), sandbox=sandbox, digest="sha256:0")


class FixedSurvey:
    """An engine and a host that never change; no engine where it is None."""

    def __init__(self, *, engine: EngineFacts | None = ENGINE, host: HostFacts = HOST) -> None:
        self._engine = engine
        self._host = host

    def describe_engine(self) -> EngineFacts:
        if self._engine is None:
            raise EngineUnavailableError("the engine does not answer")
        return self._engine

    def describe_host(self) -> HostFacts:
        return self._host


def make_memory_host(answers: Mapping[str, str]) -> MemorySandboxHost:
    """Return a host whose python3 answers as the program inside would."""

    def run(call: ProgramCall) -> ProgramOutcome:
        name = call.argv[4] if len(call.argv) > 4 else ""
        if name in ENDINGS:
            return ProgramOutcome(ending=ENDINGS[name], stdout=_end(answers.get(name, "")))
        return ProgramOutcome(stdout=_end(answers.get(name, "")) if name else b"")

    program = FakeProgram(name="python3", run=run)
    return MemorySandboxHost({"start": {"README": b""}}, programs=[program])


ENDINGS = {
    "outlive": Ending.TIMED_OUT,
    "memory": Ending.OUT_OF_MEMORY,
    "pids": Ending.RESOURCE_LIMIT,
    "disk": Ending.DISK_FULL,
    "inodes": Ending.DISK_FULL,
}


def _end(text: str) -> bytes:
    return f"{text}\nend\n".encode()


def make_doctor(host: MemorySandboxHost, survey: FixedSurvey) -> Doctor:
    """Return what examines a host in memory."""

    @contextmanager
    def open_room() -> Iterator[ProbeRoom]:
        yield ProbeRoom(host=host, source=Source(kind=SourceKind.ARCHIVE, location="start"))

    return Doctor(
        survey=survey,
        open_room=open_room,
        list_images=lambda: (KnownImage(name="python", image_id="sha256:1"),),
        memory_mib=4000,
    )
