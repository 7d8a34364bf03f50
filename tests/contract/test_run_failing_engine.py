"""A whole run on an engine that fails in the middle of a call (faults D19, D22, D29)."""

from __future__ import annotations

import gc
import os
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from docker_yard import make_docker_yard
from engine_proxy import EngineProxy
from host_setting import make_docker_host
from private_engine import PrivateEngine
from run_builders import FINISH, Yard, shell
from sandbox_builders import open_test_engine

from runner.adapters.system_clock import SystemClock
from runner.application.await_engine import EnginePatience
from runner.application.verify_rollout import verify_rollout
from runner.domain.items import Event, ToolStatus
from runner.domain.outcome import Outcome
from runner.domain.records import Run
from runner.domain.task import VerifySpec
from sandbox.docker.engine import Engine, open_engine

# The SDK leaves a socket to the garbage collector when it cannot connect.
pytestmark = [
    pytest.mark.engine,
    pytest.mark.filterwarnings(
        "ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning"
    ),
]

SLOW = [shell("echo one > one"), shell("sleep 1.5; echo two > two")]
VERIFY = VerifySpec(argv=("sh", "-c", "test -e one && test -e two"))


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with open_test_engine() as opened:
        yield opened


@pytest.fixture
def proxy(tmp_path) -> Iterator[EngineProxy]:
    with EngineProxy(tmp_path / "p.sock") as opened:
        yield opened
    gc.collect()  # what the SDK left is judged here, not in the next test


@contextmanager
def open_yard(url: str, folder: Path, image: str = "") -> Iterator[Yard]:
    with open_engine(url, timeout_seconds=5) as connected:
        host = make_docker_host(connected, folder / "home")
        yard = make_docker_yard(
            SLOW, [FINISH], folder=folder, engine=connected, host=host, image=image, verify=VERIFY
        )
        yard.services = replace(yard.services, clock=SystemClock())
        yield yard


def work(yard: Yard, *, patience_seconds: float = 20) -> Run:
    patience = EnginePatience(seconds=patience_seconds)
    return yard.work(replace(yard.desk(), patience=patience))


def when_the_second_call_runs(yard: Yard, then) -> threading.Thread:
    """Do something half a second after the agent's second call was started."""

    def watch() -> None:
        while sum(one.payload.kind == "execution" for one in yard.items) < 3:
            threading.Event().wait(0.02)
        threading.Event().wait(0.5)
        then()

    watcher = threading.Thread(target=watch)
    watcher.start()
    return watcher


def labelled(engine: Engine, yard: Yard) -> int:
    # ids of tasks are the same in every run of these tests; that of the host is not
    return len(engine.find_labelled({"forkyard.instance": yard.host._instance_id}))


def events(yard: Yard) -> list[str]:
    return [one.payload.name for one in yard.items if isinstance(one.payload, Event)]


def assert_went_on(yard: Yard, run: Run) -> None:
    assert run.outcome is Outcome.VERIFIED
    assert [one.call_id for one in yard.results] == yard.calls
    assert {one.status for one in yard.results} == {ToolStatus.SUCCEEDED}
    assert events(yard).count("sandbox.lost") == 1
    assert verify_rollout(yard.task.task_id, yard.services).ok
    with yard.store.read() as view:
        attempts = [one.attempt for one in view.list_executions(yard.task.session_id)]
    assert attempts == [1, 2, 1]


@pytest.mark.slow
def test_a_run_whose_connections_are_cut_goes_on_from_its_last_snapshot(engine, proxy, tmp_path):
    def cut() -> None:
        proxy.down()
        threading.Timer(1, proxy.up).start()

    with open_yard(proxy.url, tmp_path) as yard:
        watcher = when_the_second_call_runs(yard, cut)
        run = work(yard)
        watcher.join()

        assert_went_on(yard, run)
        yard.host.reap(list)
        assert labelled(engine, yard) == 0
    assert str(tmp_path) not in Path("/proc/self/mountinfo").read_text()


@pytest.mark.slow
def test_a_run_whose_engine_stays_away_says_so_and_the_next_process_cleans_up(
    engine, proxy, tmp_path
):
    with open_yard(proxy.url, tmp_path) as yard:
        watcher = when_the_second_call_runs(yard, proxy.down)
        run = work(yard, patience_seconds=1)
        watcher.join()

        assert run.outcome is Outcome.INFRASTRUCTURE_ERROR
        assert "does not answer" in run.reason
        assert [one.call_id for one in yard.results] == yard.calls
        assert [one.status for one in yard.results] == [ToolStatus.SUCCEEDED, ToolStatus.FAILED]
        assert labelled(engine, yard) == 1
        proxy.up()
        yard.host.reap(list)
        assert labelled(engine, yard) == 0
    assert str(tmp_path) not in Path("/proc/self/mountinfo").read_text()


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="starting an engine of its own needs root")
def test_a_run_whose_engine_is_restarted_goes_on_from_its_last_snapshot(tmp_path):
    with tempfile.TemporaryDirectory(dir="/tmp") as short, PrivateEngine(Path(short)) as private:

        def restart() -> None:
            private.stop()
            private.start()

        with open_yard(private.url, tmp_path, private.image) as yard:
            watcher = when_the_second_call_runs(yard, restart)
            run = work(yard)
            watcher.join()

            assert_went_on(yard, run)
            yard.host.reap(list)
            with open_engine(private.url) as again:
                assert labelled(again, yard) == 0
    gc.collect()
    assert str(tmp_path) not in Path("/proc/self/mountinfo").read_text()
