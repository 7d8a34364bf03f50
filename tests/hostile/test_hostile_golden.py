"""A live task is the hardened specification, key by key (security.md, case 64)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import docker
import pytest
from docker_yard import make_docker_yard
from golden_inspect import (
    GOLDEN,
    fill,
    list_golden_drift,
    list_leaves,
    list_objects,
    with_added,
    with_planted,
    without,
)
from host_setting import make_docker_host
from run_builders import FINISH, shell

from runner.domain.outcome import Outcome
from sandbox import Sandbox, SandboxHost, SandboxSpec
from sandbox.docker.engine import Engine
from sandbox.docker.specification import read_seccomp_profile

pytestmark = pytest.mark.engine

LEAVES = list(list_leaves(GOLDEN["document"]))
OBJECTS = [one for one in list_objects(GOLDEN["document"]) if one]


class WatchedHost:
    """A host that keeps what the engine says of each container while it lives."""

    def __init__(self, host: SandboxHost, engine: Engine) -> None:
        self._host = host
        self._engine = engine
        self.seen: list[tuple[SandboxSpec, Mapping[str, Any]]] = []

    def __getattr__(self, name: str) -> object:
        return getattr(self._host, name)

    @contextmanager
    def open_sandbox(self, spec: SandboxSpec) -> Iterator[Sandbox]:
        with self._host.open_sandbox(spec) as sandbox:
            yield sandbox
            self.seen.append((spec, self._engine.inspect(sandbox.sandbox_id)))


@pytest.fixture(scope="module")
def live(engine: Engine, tmp_path_factory: pytest.TempPathFactory):
    """A task of the whole runner, as the engine saw its container when its calls had run."""
    folder = tmp_path_factory.mktemp("golden")
    host = WatchedHost(make_docker_host(engine, folder / "home"), engine)
    yard = make_docker_yard(
        [shell("echo x > y")], [FINISH], folder=folder, engine=engine, host=host
    )
    assert yard.work().outcome is Outcome.NOT_VERIFIED
    [(spec, found)] = host.seen
    # the engine lists mounts in any order here, in ours in HostConfig
    order = [one["Destination"] for one in GOLDEN["document"]["Mounts"]]
    mounts = sorted(found["Mounts"], key=lambda one: order.index(one["Destination"]))
    return spec, {**found, "Mounts": mounts}


@pytest.fixture(scope="module")
def expected(live):
    """The golden document for this task; what is live equals it, else no drift proves a thing."""
    spec, found = live
    labels = found["Config"]["Labels"]
    words = {
        "image": spec.image,
        "instance": labels["forkyard.instance"],
        "task": spec.task_id,
        "files": found["HostConfig"]["Mounts"][0]["Source"].removesuffix("/workspace"),
        "base": found["HostConfig"]["Mounts"][3]["Source"],
        "seccomp": read_seccomp_profile(),
    }
    document = fill(GOLDEN["document"], words)
    _add_what_the_image_has(document["Config"], spec.image)
    if not Path("/proc/sys/net/ipv6").is_dir():  # then there is nothing to switch off
        del document["HostConfig"]["Sysctls"]["net.ipv6.conf.all.disable_ipv6"]
    assert list_golden_drift(document, found) == []
    return document


def _add_what_the_image_has(config: dict[str, Any], image: str) -> None:
    client = docker.DockerClient()
    try:
        own = client.images.get(image).attrs["Config"]
    finally:
        client.close()
    names = {one.split("=")[0] for one in config["Env"]}
    config["Env"] += [one for one in own["Env"] or () if one.split("=")[0] not in names]
    config["Labels"] |= own["Labels"] or {}


def test_a_live_task_is_the_golden_specification(live, expected):
    _, found = live

    assert list_golden_drift(expected, found) == []
    assert set(found["NetworkSettings"]["Networks"]) == {"none"}
    volume, base = expected["Mounts"][0]["Source"], expected["Mounts"][3]["Source"]
    assert f"/work/{live[0].task_id}/files/" in volume
    assert base.endswith(".git")


@pytest.mark.parametrize("where", LEAVES, ids=str)
def test_every_single_changed_value_is_noticed(live, expected, where):
    _, found = live

    assert list_golden_drift(expected, with_planted(found, where)) != []


@pytest.mark.parametrize("where", OBJECTS, ids=str)
def test_every_key_that_nobody_expected_is_noticed(live, expected, where):
    _, found = live

    assert list_golden_drift(expected, with_added(found, where)) != []


@pytest.mark.parametrize("where", LEAVES, ids=str)
def test_every_missing_value_is_noticed(live, expected, where):
    tolerated = [one["path"] for one in GOLDEN["tolerated"] if one.get("may_be_absent")]
    if list(where) in tolerated:
        assert list_golden_drift(expected, without(live[1], where)) == []
        return

    assert list_golden_drift(expected, without(live[1], where)) != []


def test_everything_that_is_tolerated_has_a_reason():
    for one in (*GOLDEN["tolerated"], *GOLDEN["more_is_stricter"]):
        assert one["why"]
