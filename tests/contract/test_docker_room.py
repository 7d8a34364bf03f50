"""A host whose own disk runs full under sandboxes (faults D22, D23)."""

from __future__ import annotations

import os
import secrets
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from docker_yard import SMALL_POLICY, make_docker_yard
from host_setting import OWNER
from run_builders import FINISH, shell
from sandbox_builders import open_test_engine

from policies import DiskLimit, Limits
from runner.adapters.sql import open_sql_store
from runner.application.describe_task import describe_task
from runner.domain.outcome import Outcome
from sandbox import DiskFullError, SandboxHost
from sandbox.docker.engine import Engine
from sandbox.docker.host import DockerSandboxHost
from sandbox.docker.loop_mount import mount_image, unmount
from sandbox.docker.room import HostRoom, KeptFree, measure_room
from sandbox.docker.volumes import VolumeOwner, VolumeStore
from sandbox.git.repositories import GitRepositories
from sandbox.git.workspaces import GitWorkspaces

MIB = 1024 * 1024

pytestmark = [
    pytest.mark.engine,
    pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk needs root"),
]


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with open_test_engine() as opened:
        yield opened


@pytest.fixture
def small_disk(tmp_path) -> Iterator[Path]:
    """A file system of 1000 MiB (sparse) and a few thousand inodes."""
    image, point = tmp_path / "disk", tmp_path / "d"
    with image.open("xb") as file:
        os.truncate(file.fileno(), 1000 * MIB)
    subprocess.run(["mkfs.ext4", "-q", "-F", "-m", "0", "-N", "8000", image], check=True)
    point.mkdir()
    mount_image(image, point)
    yield point
    unmount(str(point), detach=True)  # a reader of git objects may still be at it


def make_host(engine: Engine, home: Path, kept: KeptFree) -> SandboxHost:
    repositories = GitRepositories(home)
    return DockerSandboxHost(
        engine=engine,
        repositories=repositories,
        workspaces=GitWorkspaces(repositories, owner=OWNER),
        home=home,
        instance_id=f"test{secrets.token_hex(4)}",
        owner=OWNER,
        kept_free=kept,
    )


def test_the_homes_and_the_engines_file_systems_are_measured(engine, tmp_path):
    host = make_host(engine, tmp_path / "not" / "yet", KeptFree())

    rooms = host.list_rooms()

    assert [one.used_for for one in rooms] == ["home", "engine"]
    assert rooms[0].path == f"{tmp_path}/not/yet"
    found = os.statvfs(tmp_path)
    assert abs(rooms[0].free_bytes - found.f_bavail * found.f_frsize) < 500 * MIB
    assert rooms[0].free_inodes is None or rooms[0].free_inodes > 0


def test_a_file_system_without_free_inodes_is_measured_as_such(small_disk):
    before = measure_room("home", small_disk / "x")
    for number in range(100):
        (small_disk / str(number)).touch()

    assert measure_room("home", small_disk / "x").free_inodes == before.free_inodes - 100


@pytest.mark.slow
def test_a_task_that_fills_the_hosts_disk_ends_and_store_and_log_stay_readable(engine, small_disk):
    policy = SMALL_POLICY.replace("disk_mib: 64", "disk_mib: 1024")
    kept = KeptFree(free_bytes=700 * MIB, inodes=10)
    host = make_host(engine, small_disk / "home", kept)
    (small_disk / "home").mkdir()
    url = f"sqlite:///{small_disk}/home/store.db"
    fill = shell("head -c 500m /dev/zero > big; sleep 3; echo done")
    with open_sql_store(url) as store:
        yard = make_docker_yard(
            [shell("echo x > y")], [fill], [FINISH],
            folder=small_disk, engine=engine, host=host, policy=policy, store=store,
        )  # fmt: skip

        run = yard.work()

        assert run.outcome is Outcome.DISK_FULL
        assert "the host has no room left" in run.reason
        assert "700 are kept" in run.reason
        assert [one.call_id for one in yard.results] == yard.calls
    with open_sql_store(url) as store:
        yard.services = replace(yard.services, store=store)
        report = describe_task(yard.task.task_id, yard.services)
        assert [one.path for one in report.files.changes.items] == [b"y"]
    host.reap(list)
    assert len(engine.find_labelled({"forkyard.instance": host._instance_id})) == 0


def test_what_the_kernel_has_promised_and_cannot_keep_is_noticed(small_disk):
    limits = Limits(disk_mib=2048, inodes=1000)
    room = HostRoom(small_disk, KeptFree(free_bytes=0, inodes=0))
    with (small_disk / "ballast").open("wb") as ballast:
        os.posix_fallocate(ballast.fileno(), 0, 940 * MIB)
    store = VolumeStore(small_disk / "work", may_mount=True)
    owner = VolumeOwner("i", "t", 1)
    with store.open_volume("t", owner, limits=limits, disk=DiskLimit.HARD) as volume:
        room.check(volume)
        with (volume.files / "big").open("wb") as file:
            file.write(bytes(100 * MIB))  # the volume has room for it, the disk below has not

        with pytest.raises(DiskFullError, match="no room left"):
            room.check(volume)


def test_a_command_that_takes_the_hosts_last_inodes_ends_its_run(engine, small_disk):
    free = measure_room("home", small_disk).free_inodes
    host = make_host(engine, small_disk / "home", KeptFree(free_bytes=0, inodes=free - 150))
    yard = make_docker_yard(
        [shell("sleep 5")], [FINISH], folder=small_disk, engine=engine, host=host
    )
    for number in range(200):
        (small_disk / str(number)).touch()

    run = yard.work()

    assert run.outcome is Outcome.DISK_FULL
    assert "inodes free" in run.reason
