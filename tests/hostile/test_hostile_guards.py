"""The probes of `doctor` notice guards that are really gone: the engine lies about its flags."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

import pytest
from sandbox_builders import find_image, make_plain_host, make_spec, open_test_engine

from policies import DiskLimit, Network
from sandbox import (
    PROBE_LIMITS,
    Command,
    CommandResult,
    Finding,
    GuardSettings,
    Standing,
    make_probes,
    run_probe,
)
from sandbox.docker.engine import Engine

pytestmark = [pytest.mark.engine, pytest.mark.slow]

SETTINGS = GuardSettings(limits=PROBE_LIMITS, disk=DiskLimit.HARD, network=Network())
Weaken = Callable[[dict[str, Any]], None]


class LyingEngine(Engine):
    """Creates a container without its guards and describes one that has them."""

    def __init__(self, honest: Engine, weaken: Weaken) -> None:
        super().__init__(control=honest._control, streaming=honest._streaming)
        self._weaken = weaken
        self._asked: Mapping[str, Any] = {}

    def create(self, body, *, name):
        self._asked = body["HostConfig"]
        host = dict(body["HostConfig"])
        self._weaken(host)
        return super().create({**body, "HostConfig": host}, name=name)

    def inspect(self, container_id):
        found = dict(super().inspect(container_id))
        targets = {mount["Target"] for mount in self._asked.get("Mounts", ())}
        found["HostConfig"] = {**found["HostConfig"], **dict.fromkeys(LEFT_OUT), **self._asked}
        found["HostConfig"]["Binds"] = None
        found["Mounts"] = [one for one in found["Mounts"] if one["Destination"] in targets]
        return found


LEFT_OUT = ("CapAdd", "Devices", "GroupAdd")


def drop_everything(host: dict[str, Any]) -> None:
    host.update(
        ReadonlyRootfs=False,
        CapDrop=[],
        SecurityOpt=["seccomp=unconfined"],
        NetworkMode="bridge",
        Ulimits=[],
        Memory=0,
        MemorySwap=0,
        PidsLimit=0,
        NanoCpus=0,
        Binds=["/var/run/docker.sock:/host/docker.sock"],
    )


@dataclass(frozen=True)
class Prover:
    """Runs probes in a sandbox that an engine makes."""

    engine: Engine
    home: Any

    def prove(
        self, *guards: str, weaken: Weaken | None = None, disk: DiskLimit = DiskLimit.HARD
    ) -> dict[str, Finding]:
        engine = self.engine if weaken is None else LyingEngine(self.engine, weaken)
        host = make_plain_host(engine, self.home)
        spec = make_spec(find_image(self.engine), limits=PROBE_LIMITS, disk=disk)
        probes = [one for one in make_probes(SETTINGS) if not guards or one.guard in guards]
        with ExitStack() as stack:
            sandbox = stack.enter_context(host.open_sandbox(spec))
            return {probe.guard: run_probe(probe, sandbox) for probe in probes}


@pytest.fixture
def prover(tmp_path) -> Iterator[Prover]:
    with open_test_engine() as engine:
        yield Prover(engine, tmp_path)


def test_every_guard_of_a_real_sandbox_is_proved(prover):
    found = prover.prove()

    broken = {name: one for name, one in found.items() if one.standing is not Standing.PROVED}
    assert broken == {}
    assert len(found) == 17


# one container for all: each probe looks at one guard only
WEAKENED = {
    "read-only root": "EACCES",
    "no names": "there is one",
    "no connections": "eth0",
    "control sockets": "/host/docker.sock",
    "privileges": "CapBnd",
    "system calls": "io_uring_setup",
    "core dumps": "limit on core dumps",
    "memory": "512 MiB",
    "processes": "128 processes",
    "open files": "512 files",
}


def test_each_guard_that_an_engine_left_out_is_found_to_be_gone(prover):
    found = prover.prove(*WEAKENED, weaken=drop_everything)

    assert {name: one.standing for name, one in found.items()} == dict.fromkeys(
        WEAKENED, Standing.FAILED
    )
    assert [name for name, part in WEAKENED.items() if part not in found[name].fact] == []


def test_a_disk_without_a_limit_is_found_and_not_filled(prover):
    found = prover.prove("disk", "inodes", disk=DiskLimit.WATCHED)

    assert {one.standing for one in found.values()} == {Standing.FAILED}
    assert "got: 128 MiB" in found["disk"].fact


class CrowdedSandbox:
    """Runs each command of a name beside processes that are not its own."""

    def __init__(self, sandbox, name: str, *, script: str) -> None:
        self._sandbox = sandbox
        self._name = name
        self._script = script
        self.sandbox_id = sandbox.sandbox_id

    def run(self, command: Command, *, stop=None) -> CommandResult:
        if command.argv[4] == self._name:
            crowded = ("sh", "-c", f'{self._script}; exec "$@"', "sh", *command.argv)
            return self._sandbox.run(replace(command, argv=crowded), stop=stop)
        return self._sandbox.run(command, stop=stop)


@pytest.mark.parametrize(
    ("guard", "name", "script", "facts"),
    [
        # as if the command before had not been ended whole
        (
            "time limit",
            "survivors",
            '("$1" "$2" "$3" "$4" outlive &); sleep .5',
            ("it still writes: yes", "forkyard-beat"),
        ),
        # as if the process ids were not the container's own
        ("other processes", "processes", "sleep 60 & sleep .3", ("processes of others: sleep",)),
    ],
)
def test_a_process_that_should_not_be_there_is_found(prover, guard, name, script, facts):
    probe = next(one for one in make_probes(SETTINGS) if one.guard == guard)
    host = make_plain_host(prover.engine, prover.home)
    with host.open_sandbox(make_spec(find_image(prover.engine), limits=PROBE_LIMITS)) as sandbox:
        found = run_probe(probe, CrowdedSandbox(sandbox, name, script=script))

    assert found.standing is Standing.FAILED
    assert [fact for fact in facts if fact not in found.fact] == []
