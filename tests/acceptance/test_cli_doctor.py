"""`forkyard doctor` as a user."""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import time
from pathlib import Path

import pytest
from cli_user import User


@pytest.fixture
def user(tmp_path):
    return User(tmp_path)


def list_containers(user):
    name = hashlib.sha256(os.fsencode(user.home)).hexdigest()[:12]
    argv = ["docker", "ps", "-aq", "--filter", f"label=forkyard.instance=doctor{name}"]
    return subprocess.run(argv, capture_output=True, check=True).stdout.split()


def is_mounted(user):
    return str(user.home) in Path("/proc/self/mountinfo").read_text()


def wait_for(reached):
    deadline = time.monotonic() + 60
    while not reached():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.engine
@pytest.mark.slow
def test_doctor_proves_every_guard_of_the_built_in_policy_and_leaves_nothing(user):
    said = user.run("doctor", "--json")

    assert [one for one in said.json["guards"] if one["standing"] != "proved"] == []
    assert (said.code, said.json["lacks"]) == (0, [])
    assert said.json["engine"]["api_version"]
    assert {one["name"] for one in said.json["images"]} >= {"python", "node"}
    assert not user.home.exists()
    assert (list_containers(user), is_mounted(user)) == ([], False)


@pytest.mark.engine
@pytest.mark.slow
def test_doctor_examines_what_the_policy_asks_for_and_refuses_what_cannot_be(user):
    user.write(
        "mine.yaml",
        """\
        version: 1
        name: mine
        tools: [shell]
        sandbox:
          network: {mode: open}
          limits: {memory_mib: 999999999, pids: 16}
          disk: watched
        """,
    )

    said = user.run("doctor", "--policy", "./mine.yaml")

    assert said.code == 3
    assert "missing: memory:" in said.text
    assert "the policy gives 999999999" in said.text
    rows = {line[:15].strip(): line[15:].strip() for line in said.text.splitlines()}
    assert rows["no connections"].startswith("not asked for")
    assert "limit 16" in rows["processes"]
    assert "sampled" in rows["disk"]


@pytest.mark.engine
@pytest.mark.slow
def test_what_a_killed_doctor_left_is_removed_by_the_next(user):
    killed = user.start("doctor")
    wait_for(lambda: list_containers(user))
    killed.kill()
    killed.communicate()

    assert list_containers(user)
    user.run("doctor", "--image", "nothing-like-it")

    assert (list_containers(user), is_mounted(user)) == ([], False)
    assert not (user.home / "doctor").exists()


def test_doctor_without_an_engine_says_so_and_describes_the_host(tmp_path):
    user = User(tmp_path, env={"DOCKER_HOST": "unix:///nonexistent.sock"})

    said = user.run("doctor")

    assert said.code == 3
    assert "engine     none answers" in said.text
    assert "missing: engine: the engine does not answer" in said.text
    assert "git " in said.text
    assert not user.home.exists()


@pytest.mark.engine
def test_a_missing_image_is_named_with_the_way_out(user):
    said = user.run("doctor", "--image", "nothing-like-it")

    assert said.code == 3
    assert "missing: probes: image 'nothing-like-it'" in said.text
    assert "`docker pull` it first, or name a built-in one (node, python)" in said.text


@pytest.mark.engine
def test_a_second_doctor_of_the_same_home_does_not_disturb_the_first(user):
    place = user.home / "doctor"
    place.mkdir(parents=True)
    held = os.open(place, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)

    said = user.run("doctor", "--json")

    os.close(held)
    assert said.code == 4
    assert "another `doctor`" in said.json["error"]["message"]
    assert place.is_dir()


def test_a_policy_that_asks_for_what_is_not_enforced_is_refused(user):
    user.write(
        "mine.yaml",
        "version: 1\nname: mine\ntools: [shell]\nsandbox: {rootfs: writable}\n",
    )

    said = user.run("doctor", "--policy", "./mine.yaml")

    assert said.code == 2
    assert "rootfs" in said.err
