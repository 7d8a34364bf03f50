"""Field faults of engines that no other suite reproduces; docs/faults-docker.md has all rows."""

from __future__ import annotations

import gc
import os
import resource
import secrets
import select
import socket
import threading
import time
from collections.abc import Iterator

import pytest
from docker_yard import make_docker_yard
from engine_proxy import EngineProxy
from host_setting import make_docker_host
from run_builders import FINISH, shell
from sandbox_builders import find_image, make_plain_host, make_spec, open_test_engine, run

from policies import Mount
from runner.domain.outcome import Outcome
from runner.domain.task import VerifySpec
from sandbox import UnsupportedError
from sandbox.docker.engine import Engine, open_engine

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
def host(engine, tmp_path):
    return make_plain_host(engine, tmp_path, instance_id=f"test{secrets.token_hex(4)}")


def read_all(stream) -> bytes:
    data = stream.early
    while True:
        select.select([stream.connection], [], [], 20)
        more = stream.connection.recv(65536)
        if not more:
            return data
        data += more


@pytest.mark.slow
def test_many_streams_on_one_connection_pool_do_not_hold_up_control_calls(engine, host, image):
    said: dict[int, bytes] = {}

    def work(number: int, container_id: str) -> None:
        exec_id = engine.create_exec(
            container_id,
            ("sh", "-c", f"echo =n{number}=; sleep 2"),
            user="1000:1000",
            cwd="/",
            environment=(),
            stdin=False,
        )
        stream = engine.start_exec(exec_id)
        said[number] = read_all(stream)
        stream.close()

    with host.open_sandbox(make_spec(image)) as sandbox:
        workers = [
            threading.Thread(target=work, args=(one, sandbox.sandbox_id)) for one in range(24)
        ]
        for worker in workers:
            worker.start()
        before = time.monotonic()
        for _ in range(10):
            engine.inspect(sandbox.sandbox_id)
        assert time.monotonic() - before < 2
        for worker in workers:
            worker.join()

    assert all(f"=n{number}=".encode() in text for number, text in said.items())
    assert len(said) == 24


def test_commands_run_where_descriptors_have_numbers_above_1024(host, image):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 4096)), hard))
    held = [os.open("/dev/null", os.O_RDONLY) for _ in range(1200)]
    try:
        assert max(held) > 1024
        with host.open_sandbox(make_spec(image)) as sandbox:
            assert run(sandbox, "cat", stdin=b"through").stdout.head == b"through"
    finally:
        for one in held:
            os.close(one)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_removing_a_sandbox_waits_for_no_grace(host, image):
    manager = host.open_sandbox(make_spec(image))
    manager.__enter__()
    before = time.monotonic()

    manager.__exit__(None, None, None)

    assert time.monotonic() - before < 1.5


@pytest.mark.parametrize("version", ["1.30", "1.60"])
def test_the_api_version_is_agreed_on_whatever_the_environment_says(version, monkeypatch):
    monkeypatch.setenv("DOCKER_API_VERSION", version)

    with open_engine() as engine:
        engine.ping()
        assert engine.find_labelled({"forkyard.instance": "nobody"}) == ()


def test_an_engine_that_is_too_old_is_refused_naming_both_versions(tmp_path):
    with EngineProxy(tmp_path / "p.sock") as proxy:
        proxy.answer_with(
            "GET /version", 200, {"ApiVersion": "1.40", "MinAPIVersion": "1.12"}, times=2
        )

        with pytest.raises(UnsupportedError, match=r"1\.12 to 1\.40; 1\.41 or"):
            open_engine(proxy.url).__enter__()
    gc.collect()


def test_a_mount_source_that_does_not_exist_is_refused_and_not_made(host, image, tmp_path):
    missing = tmp_path / "mistyped"
    mount = Mount(source=str(missing), target="/data")

    with (
        pytest.raises(UnsupportedError, match="does not exist"),
        host.open_sandbox(make_spec(image, mounts=(mount,))),
    ):
        pytest.fail("made")

    assert not missing.exists()


def test_folders_that_an_agent_closed_are_in_the_patch_and_do_not_stay(engine, tmp_path):
    host = make_docker_host(engine, tmp_path / "home")
    yard = make_docker_yard(
        [shell("mkdir d && echo x > d/f && chmod 0 d && mkdir -m 0 ~/closed")],
        [FINISH],
        folder=tmp_path,
        engine=engine,
        host=host,
        verify=VerifySpec(argv=("grep", "x", "d/f")),
    )

    assert yard.work().outcome is Outcome.VERIFIED
    assert not [one for one in (tmp_path / "home/work").iterdir() if one.name[0] != "."]


def test_what_listens_on_the_host_is_out_of_reach(host, image):
    script = (
        "import socket, sys\n"
        "for address in sys.argv[2:]:\n"
        "    try: socket.create_connection((address, int(sys.argv[1])), 2)\n"
        "    except OSError as error: print(address, error.errno)\n"
        "    else: print(address, 'reached')\n"
    )
    with socket.create_server(("0.0.0.0", 0)) as listener:
        port = str(listener.getsockname()[1])
        own = socket.gethostbyname_ex(socket.gethostname())[2]
        addresses = ("172.17.0.1", "127.0.0.1", *own)
        with host.open_sandbox(make_spec(image)) as sandbox:
            tried = run(sandbox, "python3", "-c", script, port, *addresses)

    assert tried.ok
    assert len(tried.stdout.head.splitlines()) == len(addresses)
    assert b"reached" not in tried.stdout.head
