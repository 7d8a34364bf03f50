"""The engine when it fails: dead, cut off, slow to answer, asked twice (faults D03-D36)."""

from __future__ import annotations

import gc
import os
import secrets
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path

import docker
import pytest
from sandbox_builders import (
    find_image,
    make_plain_host,
    make_spec,
    open_test_engine,
    run,
    run_shell,
)

from policies import Limits, Mount
from sandbox import (
    Command,
    Ending,
    EngineError,
    EngineUnavailableError,
    ImageMissingError,
    SandboxLostError,
    UnsupportedError,
)
from sandbox.docker.container import EnginePause, open_container
from sandbox.docker.engine import Engine, ExecStream, open_engine
from sandbox.docker.exec import run_exec
from sandbox.docker.processes import Processes, open_processes
from sandbox.docker.specification import ContainerPlace, make_create_body, make_labels

pytestmark = pytest.mark.engine

# The SDK leaves a socket to the garbage collector when it cannot connect.
sdk_leaves_sockets = pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning"
)


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with open_test_engine() as opened:
        yield opened


@pytest.fixture(scope="module")
def image(engine) -> str:
    return find_image(engine)


@pytest.fixture
def instance_id() -> str:
    return f"test{secrets.token_hex(4)}"


@pytest.fixture
def host(engine, tmp_path, instance_id):
    return make_plain_host(engine, tmp_path, instance_id=instance_id)


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


@pytest.fixture
def collected() -> Iterator[None]:
    """Collect what the SDK left before the next test is judged by it."""
    yield
    gc.collect()


@sdk_leaves_sockets
@pytest.mark.usefixtures("collected")
def test_an_engine_that_is_not_there_is_unavailable(tmp_path):
    with pytest.raises(EngineUnavailableError), open_engine(f"unix://{tmp_path}/no.sock"):
        pytest.fail("connected")


def test_a_missing_image_is_never_pulled(engine):
    before = time.monotonic()

    with pytest.raises(ImageMissingError, match="nosuch:1"):
        engine.image_facts("nosuch:1")

    assert time.monotonic() - before < 1


def test_a_container_that_is_removed_by_many_is_removed_once(engine, image, place):
    body = make_create_body(make_spec(image), place)
    container_id = engine.create(body, name=f"forkyard-{place.instance_id}-x")
    removed: list[bool] = []

    workers = [
        threading.Thread(target=lambda: removed.append(engine.remove(container_id)))
        for _ in range(4)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()

    assert len(removed) == 4
    assert mine(engine, place.instance_id) == 0
    assert engine.remove(container_id) is False


def test_a_container_that_cannot_start_leaves_nothing(engine, host, image, instance_id, tmp_path):
    # more open files than the engine itself may have
    spec = make_spec(image, limits=Limits(open_files=2**30, disk_mib=8, inodes=100))

    with pytest.raises(EngineError), host.open_sandbox(spec):
        pytest.fail("started")

    assert mine(engine, instance_id) == 0
    assert not [one for one in (tmp_path / "work").iterdir() if not one.name.startswith(".")]
    assert str(tmp_path) not in Path("/proc/self/mountinfo").read_text()


class LooseEngine:
    """An engine that loosens what it is asked for."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def __getattr__(self, name: str) -> object:
        return getattr(self._engine, name)

    def create(self, body, *, name):
        loose = {**body["HostConfig"], "CapDrop": []}
        return self._engine.create({**body, "HostConfig": loose}, name=name)


def test_a_mount_that_a_link_leads_elsewhere_is_refused(
    engine, host, image, instance_id, tmp_path
):
    # with a writable mount, a former task may have put the link there
    (tmp_path / "open").mkdir()
    (tmp_path / "open" / "link").symlink_to("/etc")
    mount = Mount(source=str(tmp_path / "open" / "link"), target="/data")

    with (
        pytest.raises(UnsupportedError, match="link"),
        host.open_sandbox(make_spec(image, mounts=(mount,))),
    ):
        pytest.fail("made")
    assert mine(engine, instance_id) == 0


class LosingEngine:
    """An engine whose answer to the start of a command is lost, after the command was started."""

    def __init__(self, engine: Engine, processes: Processes) -> None:
        self._engine = engine
        self._processes = processes

    def create_exec(self, *arguments: object, **named: object) -> str:
        return self._engine.create_exec(*arguments, **named)

    def start_exec(self, exec_id: str) -> ExecStream:
        self._engine.start_exec(exec_id).close()
        while self._processes.are_clean():
            pass
        raise EngineUnavailableError("the engine does not answer")


def test_a_command_whose_start_is_not_answered_does_not_run_on(engine, image, place):
    with open_container(make_spec(image), place, engine=engine) as container:
        with pytest.raises(EngineUnavailableError):
            run_exec(
                Command(argv=("sleep", "100"), cwd="/"),
                container=container,
                engine=LosingEngine(engine, container.processes),
                stop=None,
            )

        assert container.processes.are_clean()


def test_a_container_that_is_not_as_asked_is_removed_before_it_starts(engine, image, place):
    with (
        pytest.raises(EngineError, match="CapDrop"),
        open_container(make_spec(image), place, engine=LooseEngine(engine)),
    ):
        pytest.fail("started")

    assert mine(engine, place.instance_id) == 0


class ForgetfulEngine(LooseEngine):
    """An engine whose answer to a creation is lost."""

    def create(self, body, *, name):
        self._engine.create(body, name=name)
        raise EngineUnavailableError("the answer was lost")


def test_a_creation_whose_answer_is_lost_leaves_no_container(engine, image, place):
    with (
        pytest.raises(EngineUnavailableError),
        open_container(make_spec(image), place, engine=ForgetfulEngine(engine)),
    ):
        pytest.fail("started")

    assert mine(engine, place.instance_id) == 0


def test_the_reaper_takes_every_state_and_no_other_instances(engine, host, image, place):
    spec = make_spec(image)
    created = engine.create(make_create_body(spec, place), name=f"{place.instance_id}-created")
    foreign_labels = make_labels(spec, instance_id=f"{place.instance_id}x")
    foreign_body = {**make_create_body(spec, place), "Labels": foreign_labels}
    foreign = engine.create(foreign_body, name=f"{place.instance_id}-foreign")
    try:
        assert host.reap(lambda: [(spec.task_id, spec.attempt)]) == 0
        assert host.reap(lambda: [(spec.task_id, spec.attempt + 1)]) == 1
        assert host.reap(list) == 0
        assert engine.inspect(foreign)["State"]["Status"] == "created"
    finally:
        engine.remove(created)
        engine.remove(foreign)


def test_a_command_whose_container_dies_is_lost_at_once(engine, host, image):
    with host.open_sandbox(make_spec(image)) as sandbox:
        killer = threading.Timer(0.5, engine.remove, args=[sandbox.sandbox_id])
        killer.start()
        before = time.monotonic()

        with pytest.raises(SandboxLostError):
            run(sandbox, "sleep", "30")

        assert time.monotonic() - before < 5
        killer.join()
        with pytest.raises(SandboxLostError):
            run(sandbox, "true")


def test_a_paused_container_is_lost_and_does_not_hang(engine, host, image):
    with host.open_sandbox(make_spec(image)) as sandbox:
        engine.pause(sandbox.sandbox_id)

        with pytest.raises(SandboxLostError):
            run(sandbox, "true")

        engine.unpause(sandbox.sandbox_id)


def test_an_image_with_volumes_leaves_no_anonymous_volume(engine, host, image):
    client = docker.DockerClient()
    made = client.containers.create(image, ["true"])
    declared = made.commit(changes="VOLUME /data")
    made.remove()
    before = len(client.volumes.list())
    try:
        with host.open_sandbox(make_spec(declared.id)) as sandbox:
            written = run_shell(sandbox, "echo x >/data/x && df -k --output=size /data | tail -1")
            during = len(client.volumes.list())
        after = len(client.volumes.list())
    finally:
        client.images.remove(declared.id, force=True)
        client.close()

    assert int(written.stdout.head) <= 16 * 1024
    assert (during, after) == (before, before)


def test_many_commands_of_many_sandboxes_do_not_wait_for_one_another(host, image):
    with ExitStack() as stack:
        sandboxes = [stack.enter_context(host.open_sandbox(make_spec(image))) for _ in range(3)]
        workers = [threading.Thread(target=run, args=(one, "sleep", "1")) for one in sandboxes]
        before = time.monotonic()
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()

    assert time.monotonic() - before < 4


def test_survivors_are_killed_through_the_engine_where_control_groups_are_not_ours(
    engine, image, place
):
    spec = make_spec(image)
    with open_container(spec, place, engine=engine) as container:
        init_pid = engine.inspect(container.container_id)["State"]["Pid"]
        pause = EnginePause(engine, container.container_id)
        with open_processes(container.group, pause, init_pid=init_pid) as processes:
            ended = run_exec(
                Command(argv=("sh", "-c", "setsid sleep 100 & sleep 100 & echo x"), cwd="/"),
                container=replace(container, processes=processes),
                engine=engine,
                stop=None,
            )

            assert (ended.exit_code, ended.stdout.head) == (0, b"x\n")
            assert ended.killed_processes == 2
            assert processes.are_clean()
            deadline = time.monotonic() + 5
            # an event of the pause may reach the engine late: what counts is that it ends
            while engine.inspect(container.container_id)["State"]["Paused"]:
                assert time.monotonic() < deadline


KILLED_RUNNER = """
import sys
from pathlib import Path
from sandbox_builders import find_image, make_plain_host, make_spec, open_test_engine, run
with open_test_engine() as engine:
    host = make_plain_host(engine, Path(sys.argv[1]), instance_id=sys.argv[2])
    with host.open_sandbox(make_spec(find_image(engine), task_id="killed")) as sandbox:
        print(sandbox.sandbox_id, flush=True)
        run(sandbox, "sleep", "60", timeout_seconds=60)
"""


def test_what_a_killed_runner_left_is_removed_by_the_next_one(engine, host, tmp_path, instance_id):
    paths = os.pathsep.join(["tests", "."])
    with subprocess.Popen(
        [sys.executable, "-c", KILLED_RUNNER, str(tmp_path), instance_id],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": paths},
    ) as runner:
        container_id = runner.stdout.readline().decode().strip()
        runner.kill()
    assert engine.inspect(container_id)["State"]["Running"]

    assert host.reap(lambda: [("killed", 1)]) == 0
    assert host.reap(list) == 2  # the container and its volume

    assert mine(engine, instance_id) == 0
    assert str(tmp_path) not in Path("/proc/self/mountinfo").read_text()


class ScriptedEngine:
    """Answers one exec with frames in the same packet as the headers."""

    def __init__(self, path: Path, frames: bytes) -> None:
        self._frames = frames
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen(8)
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                connection, _address = self._listener.accept()
                threading.Thread(target=self._answer, args=[connection], daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            while request := connection.recv(65536):
                if b"/start" in request:
                    head = b"HTTP/1.1 101 UPGRADED\r\nContent-Type: x\r\nConnection: Upgrade\r\n"
                    connection.sendall(head + b"Upgrade: tcp\r\n\r\n" + self._frames)
                    return
                body = b'{"ApiVersion": "1.41"}'
                head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
                connection.sendall(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)


def test_output_that_comes_with_the_headers_is_not_lost(tmp_path):
    frames = struct.pack(">B3xI", 1, 5) + b"early"
    scripted = ScriptedEngine(tmp_path / "s.sock", frames)
    with open_engine(f"unix://{tmp_path}/s.sock", timeout_seconds=5) as engine:
        stream = engine.start_exec("x")

        assert stream.early == frames

        stream.close()
    scripted.close()


def test_a_command_may_be_stopped_before_the_engine_has_started_it(host, image):
    with host.open_sandbox(make_spec(image)) as sandbox:
        result = sandbox.run(Command(argv=("sleep", "30"), timeout_seconds=0.001))

        assert result.ending is Ending.TIMED_OUT
        assert run(sandbox, "true").ok
