"""An engine that fails between two requests: repaired or put aside, never a hang or a left-over.

A proxy of our own stands before the engine's socket (tests/engine_proxy.py); faults D03-D19.
"""

from __future__ import annotations

import gc
import os
import secrets
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import docker
import pytest
from engine_proxy import EngineProxy
from sandbox_builders import find_image, make_plain_host, make_spec, open_test_engine, run

from sandbox import DiskFullError, EngineError, EngineUnavailableError, SandboxLostError
from sandbox.docker.container import open_container
from sandbox.docker.engine import Engine, open_engine
from sandbox.docker.removals import Removals
from sandbox.docker.specification import ContainerPlace, make_create_body, make_labels

# The SDK leaves a socket to the garbage collector when it cannot connect.
pytestmark = [
    pytest.mark.engine,
    pytest.mark.filterwarnings(
        "ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning"
    ),
]


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with open_test_engine() as opened:
        yield opened


@pytest.fixture(scope="module")
def image(engine) -> str:
    return find_image(engine)


@pytest.fixture
def instance_id(engine) -> Iterator[str]:
    name = f"test{secrets.token_hex(4)}"
    yield name
    gc.collect()  # what the SDK left is judged here, not in the next test
    for one in engine.find_labelled({"forkyard.instance": name}):
        engine.remove(one.container_id)


@pytest.fixture
def proxy(tmp_path) -> Iterator[EngineProxy]:
    with EngineProxy(tmp_path / "p.sock") as opened:
        yield opened


@pytest.fixture
def proxied(proxy) -> Iterator[Engine]:
    with open_engine(proxy.url, timeout_seconds=5) as opened:
        yield opened


@pytest.fixture
def host(proxied, tmp_path, instance_id):
    return make_plain_host(proxied, tmp_path, instance_id=instance_id)


@pytest.fixture
def place(tmp_path, instance_id) -> ContainerPlace:
    for name in ("files/workspace", "files/home", "files/tmp", "base.git"):
        (tmp_path / name).mkdir(parents=True, exist_ok=True)
    return ContainerPlace(
        instance_id=instance_id,
        uid=1000,
        gid=1000,
        files=str(tmp_path / "files"),
        base_repository=str(tmp_path / "base.git"),
        cpus=1,
    )


def mine(engine: Engine, instance_id: str) -> int:
    return len(engine.find_labelled({"forkyard.instance": instance_id}))


# --- creating


def test_a_creation_that_is_done_but_not_answered_leaves_nothing(
    engine, proxy, host, image, instance_id, tmp_path
):
    proxy.drop_answer("POST /containers/create")

    with pytest.raises(EngineUnavailableError), host.open_sandbox(make_spec(image)):
        pytest.fail("made")

    assert mine(engine, instance_id) == 0
    assert not [one for one in (tmp_path / "work").iterdir() if not one.name.startswith(".")]
    with host.open_sandbox(make_spec(image)) as sandbox:
        assert run(sandbox, "true").ok


def test_what_an_unanswered_creation_made_is_removed_when_the_engine_is_back(
    engine, proxy, host, image, instance_id
):
    proxy.drop_answer("POST /containers/create", then=proxy.down)
    with pytest.raises(EngineUnavailableError), host.open_sandbox(make_spec(image, task_id="t")):
        pytest.fail("made")
    assert mine(engine, instance_id) == 1

    proxy.up()

    # also while the attempt that asked for it lives on: it has never been its container
    assert host.reap(lambda: [("t", 1)]) == 1
    assert mine(engine, instance_id) == 0


def test_a_start_that_is_done_but_not_answered_leaves_nothing(
    engine, proxy, host, image, instance_id
):
    proxy.drop_answer("POST /containers/[0-9a-f]+/start")

    with pytest.raises(EngineUnavailableError), host.open_sandbox(make_spec(image)):
        pytest.fail("started")

    assert mine(engine, instance_id) == 0


def test_a_name_that_is_taken_is_left_alone_and_another_one_is_used(
    engine, proxy, host, image, instance_id
):
    proxy.answer("POST /containers/create", 409, "the container name is already in use", times=2)

    with host.open_sandbox(make_spec(image)) as sandbox:
        assert run(sandbox, "true").ok

    assert proxy.requests.count("POST /containers/create") == 3
    assert sum(one.startswith("DELETE") for one in proxy.requests) == 1  # its own, at the end
    assert mine(engine, instance_id) == 0


class NameTakingEngine:
    """An engine on which another instance takes each name first."""

    def __init__(self, engine: Engine, foreign: str) -> None:
        self._engine = engine
        self._foreign = foreign
        self.names: list[str] = []

    def __getattr__(self, name: str) -> object:
        return getattr(self._engine, name)

    def create(self, body, *, name):
        labels = {**body["Labels"], "forkyard.instance": self._foreign}
        self.names.append(name)
        self._engine.create({**body, "Labels": labels}, name=name)
        return self._engine.create(body, name=name)


def test_a_container_of_another_instance_under_our_name_is_never_touched(
    engine, image, place, instance_id
):
    foreign = f"{instance_id}x"
    taking = NameTakingEngine(engine, foreign)
    try:
        with (
            pytest.raises(EngineError, match="in use"),
            open_container(make_spec(image), place, engine=taking),
        ):
            pytest.fail("made")

        assert len(set(taking.names)) == 3
        assert mine(engine, foreign) == 3
        assert mine(engine, instance_id) == 0
    finally:
        for one in engine.find_labelled({"forkyard.instance": foreign}):
            engine.remove(one.container_id)


def test_a_half_made_container_is_ours_only_by_all_its_labels(engine, image, place, instance_id):
    spec = make_spec(image)
    body = make_create_body(spec, place)
    other = {**body["Labels"], "forkyard.attempt": "2"}
    name = f"forkyard-{instance_id}-x"
    container_id = engine.create({**body, "Labels": other}, name=name)
    removals = Removals(engine)

    removals.remove_half_made(name, make_labels(spec, instance_id=instance_id))
    assert removals.put_aside == (name,)
    assert removals.try_again() == 0

    assert engine.inspect(container_id)["State"]["Status"] == "created"
    assert removals.put_aside == ()
    engine.remove(container_id)


def test_a_full_engine_is_told_as_a_full_disk_and_leaves_nothing(
    engine, proxy, host, image, instance_id
):
    proxy.answer("POST /containers/create", 500, "mkdir /var/lib/docker: no space left on device")

    with pytest.raises(DiskFullError, match="no room"), host.open_sandbox(make_spec(image)):
        pytest.fail("made")

    assert mine(engine, instance_id) == 0


# --- removing


def test_a_removal_that_is_done_but_not_answered_is_a_removal(
    engine, proxy, host, image, instance_id
):
    with host.open_sandbox(make_spec(image)) as sandbox:
        proxy.drop_answer(f"DELETE /containers/{sandbox.sandbox_id}")

    assert mine(engine, instance_id) == 0


def test_a_removal_that_is_already_under_way_is_waited_for(
    engine, proxy, host, image, instance_id
):
    message = "removal of container is already in progress"
    with host.open_sandbox(make_spec(image)) as sandbox:
        proxy.answer(f"DELETE /containers/{sandbox.sandbox_id}", 409, message, times=3)

    assert sum(one.startswith("DELETE") for one in proxy.requests) == 4
    assert mine(engine, instance_id) == 0


@pytest.mark.slow
def test_a_container_that_is_stuck_does_not_hold_up_its_task_and_is_tried_again(
    engine, proxy, host, image, instance_id, tmp_path
):
    stuck = "driver failed to remove root filesystem: device or resource busy"
    before = time.monotonic()
    with host.open_sandbox(make_spec(image)) as sandbox:
        proxy.answer("DELETE /containers/", 500, stuck, times=10_000)

    assert time.monotonic() - before < 15
    assert mine(engine, instance_id) == 1
    assert host._removals.put_aside == (sandbox.sandbox_id,)
    assert str(tmp_path) not in Path("/proc/self/mountinfo").read_text()  # the volume is gone
    before = time.monotonic()
    with pytest.raises(EngineError, match=r"cannot be removed.*busy"):
        host.reap(list)
    assert time.monotonic() - before < 5
    proxy._rules.clear()
    assert host.reap(list) == 1
    assert sandbox.sandbox_id not in host._removals.put_aside
    assert mine(engine, instance_id) == 0


def test_a_container_that_is_gone_already_is_no_failure(engine, host, image, instance_id):
    with host.open_sandbox(make_spec(image)) as sandbox:
        engine.remove(sandbox.sandbox_id)

    assert host._removals.put_aside == ()


# --- commands


def test_an_engine_that_dies_in_mid_command_is_told_and_nothing_runs_on(
    engine, proxy, host, image, instance_id
):
    with suppress(EngineUnavailableError), host.open_sandbox(make_spec(image)) as sandbox:
        timer = threading.Timer(0.5, proxy.down)
        timer.start()
        before = time.monotonic()

        with pytest.raises(EngineUnavailableError):
            run(sandbox, "sleep", "60", timeout_seconds=60)

        assert time.monotonic() - before < 5
        timer.join()
        client = docker.APIClient()
        assert len(client.top(sandbox.sandbox_id)["Processes"]) == 2  # init and keeper
        client.close()
    assert mine(engine, instance_id) == 1

    proxy.up()

    assert host.reap(list) == 1
    assert mine(engine, instance_id) == 0


@pytest.mark.parametrize(
    "request_kind",
    ["POST /containers/[0-9a-f]+/exec", "POST /exec/[0-9a-f]+/start", "GET /exec/[0-9a-f]+/json"],
)
def test_a_sandbox_whose_engine_did_not_answer_one_request_is_replaced(
    engine, proxy, host, image, instance_id, request_kind
):
    with host.open_sandbox(make_spec(image)) as sandbox:
        proxy.drop_answer(request_kind)

        with pytest.raises(EngineUnavailableError):
            run(sandbox, "sh", "-c", "sleep 50 & sleep .3")
        with pytest.raises(SandboxLostError, match="did not say"):
            run(sandbox, "true")

    assert mine(engine, instance_id) == 0


def test_an_engine_that_is_silent_is_unavailable_after_its_time(proxy, image, tmp_path):
    never = threading.Event()
    proxy.hold("GET /images/", never)
    with open_engine(proxy.url, timeout_seconds=1) as impatient:
        before = time.monotonic()

        with pytest.raises(EngineUnavailableError):
            impatient.image_facts(image)

        assert time.monotonic() - before < 4
    never.set()


@pytest.mark.parametrize("status", [404, 409, 500])
def test_a_command_for_a_container_that_died_meanwhile_means_a_lost_sandbox(
    engine, proxy, host, image, status
):
    with host.open_sandbox(make_spec(image)) as sandbox:
        engine.remove(sandbox.sandbox_id)
        proxy.answer("POST /containers/[0-9a-f]+/exec", status, "container is not running")

        with pytest.raises(SandboxLostError):
            run(sandbox, "true")


def test_twenty_commands_race_with_the_removal_of_their_container_and_all_return(
    engine, image, tmp_path, instance_id
):
    host = make_plain_host(engine, tmp_path, instance_id=instance_id)
    threads_before = threading.active_count()
    for wait in range(5):
        with host.open_sandbox(make_spec(image)) as sandbox:
            ends: list[BaseException] = []

            def work(sandbox=sandbox, ends=ends):
                for _ in range(4):
                    try:
                        run(sandbox, "sleep", "5")
                    except (SandboxLostError, EngineError) as error:
                        ends.append(error)

            worker = threading.Thread(target=work)
            worker.start()
            time.sleep(0.03 * wait)
            engine.remove(sandbox.sandbox_id)
            worker.join(timeout=20)
            assert not worker.is_alive()
            assert {type(one) for one in ends} == {SandboxLostError}
            assert len(ends) == 4
    assert threading.active_count() <= threads_before


def test_a_command_that_dies_with_its_container_is_never_a_result(
    engine, image, tmp_path, instance_id
):
    host = make_plain_host(engine, tmp_path, instance_id=instance_id)
    for _ in range(5):
        with host.open_sandbox(make_spec(image)) as sandbox:
            init_pid = engine.inspect(sandbox.sandbox_id)["State"]["Pid"]
            killer = threading.Timer(0.2, os.kill, args=[init_pid, signal.SIGKILL])
            killer.start()

            with pytest.raises(SandboxLostError):
                run(sandbox, "sleep", "5")
            killer.join()


def test_a_whole_life_asks_the_engine_for_these_things_only(proxy, host, image):
    with host.open_sandbox(make_spec(image)) as sandbox:
        run(sandbox, "true")
        sandbox.take_snapshot()

    kinds = {
        one.replace(sandbox.sandbox_id, "ID").replace(image, "IMAGE") for one in proxy.requests
    }
    exec_ids = {one.split("/")[2] for one in kinds if "/exec/" in one}
    for exec_id in exec_ids:
        kinds = {one.replace(exec_id, "EXEC") for one in kinds}
    # no archive, no logs, no wait, no attach, no network, no volume, no pull
    assert kinds == {
        "GET /version",
        "GET /images/IMAGE/json",
        "POST /containers/create",
        "GET /containers/ID/json",
        "POST /containers/ID/start",
        "POST /containers/ID/exec",
        "POST /exec/EXEC/start",
        "GET /exec/EXEC/json",
        "DELETE /containers/ID",
    }


def test_the_host_asks_its_engine_for_a_sign_of_life(proxy, host):
    host.check_engine()
    proxy.down()

    with pytest.raises(EngineUnavailableError):
        host.check_engine()
