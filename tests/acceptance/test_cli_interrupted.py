"""A batch that is suspended or killed, and goes on."""

import contextlib
import fcntl
import os
import signal
import sqlite3
import subprocess
import termios
import time

import pytest
from cli_user import FIX, User, batch_text, reply, script

pytestmark = [pytest.mark.engine, pytest.mark.slow]

POLICY = "repair" if os.geteuid() == 0 else "repair-watched"


@pytest.fixture
def user(tmp_path):
    user = User(tmp_path)
    user.make_repository()
    waits = reply("shell", command="test -e started || { touch started; sleep 60; }; rm started")
    tasks = [
        ("quick", script(FIX), "verified"),
        ("slow", script(FIX, waits), "verified"),
    ]
    user.write("batch.yaml", batch_text(tasks, policy=POLICY))
    return user


def wait_for(process, *texts):
    """Read progress lines until each text was seen."""
    missing = set(texts)
    lines = []
    while missing:
        line = process.stderr.readline().decode()
        assert line, "".join(lines)
        lines.append(line)
        missing -= {text for text in missing if text in line}
    return lines


def list_containers(user):
    instance = (user.home / "instance").read_text().strip()
    wanted = ["--filter", f"label=forkyard.instance={instance}", "--all", "--quiet"]
    return subprocess.run(
        ["docker", "ps", *wanted], capture_output=True, check=True
    ).stdout.split()


def list_shell_attempts(user, task_id):
    """Return the attempts of the one shell call."""
    items = [
        one["item"]["payload"] for one in user.run("task", "log", task_id, "--json").json["items"]
    ]
    calls = [call for one in items for call in one.get("calls", ()) if call["name"] == "shell"]
    (call_id,) = {call["call_id"] for call in calls}
    return {
        one["attempt"]
        for one in items
        if one["kind"] == "execution" and one["call_id"] == call_id and one["state"] == "started"
    }


def wait_until_started(user):
    """Return when the store says that the shell call is under way."""
    question = "SELECT count(*) FROM executions WHERE tool = 'shell' AND state = 'started'"
    until = time.monotonic() + 30
    with contextlib.closing(sqlite3.connect(user.home / "store.db")) as store:
        while not store.execute(question).fetchone()[0]:
            assert time.monotonic() < until, "the shell call did not start"


def shorten(user):
    """Let the slow command sleep for a moment only."""
    path = user.folder / "batch.yaml"
    path.write_text(path.read_text().replace("sleep 60", "sleep 3"))


def read_files(folder):
    return {one.name: (one.stat().st_mtime_ns, one.read_bytes()) for one in folder.iterdir()}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_a_signal_suspends_and_leaves_no_container(user, number):
    process = user.start("batch", "run", "batch.yaml")
    wait_for(process, "quick: verified", "slow: working")

    process.send_signal(number)
    out, _ = process.communicate(timeout=60)

    assert process.returncode == 130
    assert b"batch resume" in out
    assert list_containers(user) == []
    said = user.run("batch", "status", "--json")
    assert said.json["counts"]["outcome"] == {"verified": 1}


def test_a_terminal_that_goes_away_suspends(user):
    master, slave = os.openpty()
    termios.tcsetwinsize(slave, (40, 160))
    process = subprocess.Popen(
        user.argv("batch", "run", "batch.yaml"),
        cwd=user.folder,
        env=user.environment() | {"TERM": "xterm"},
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509  no threads here
    )
    os.close(slave)
    seen = b""
    while b"quick" not in seen or b"shell (" not in seen:
        seen += os.read(master, 65536)

    os.close(master)
    code = process.wait(timeout=60)

    assert code == 130
    assert list_containers(user) == []
    states = user.run("batch", "status", "--json").json["tasks"]
    assert {one["name"]: one["state"] for one in states}["slow"] in ("queued", "running")


def test_a_suspended_batch_goes_on_and_ends_as_wanted(user):
    shorten(user)
    process = user.start("batch", "run", "batch.yaml")
    wait_for(process, "slow: working")
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)

    said = user.run("batch", "resume", "--json")

    assert (process.returncode, said.code) == (130, 0)
    assert said.json["outcomes"] == {"quick": "verified", "slow": "verified"}


def test_after_kill_nine_finished_tasks_stay_and_the_rest_is_done(user):
    shorten(user)
    process = user.start("batch", "run", "batch.yaml")
    wait_for(process, "quick: verified", "slow: working")
    wait_until_started(user)
    process.kill()
    process.communicate(timeout=60)
    (batch_folder,) = (
        one for one in (user.folder / "results/small").iterdir() if one.name != "latest"
    )
    before = read_files(batch_folder / "quick")

    said = user.run("batch", "resume", "--json")

    assert said.code == 0, said.err + said.text
    assert said.json["outcomes"] == {"quick": "verified", "slow": "verified"}
    assert read_files(batch_folder / "quick") == before
    assert list_containers(user) == []
    assert list_shell_attempts(user, said.json["task_ids"]["slow"]) == {1, 2}


def test_another_repository_named_by_the_environment_stays_untouched(user):
    other = user.folder / "other"
    subprocess.run(["git", "init", "--quiet", other], check=True)
    listing = sorted(str(one) for one in other.rglob("*"))
    user.env = {"GIT_DIR": str(other / ".git"), "GIT_INDEX_FILE": str(other / ".git/index")}
    text = batch_text([("quick", script(FIX), "verified")], policy=POLICY)
    user.write("batch.yaml", text)

    said = user.run("batch", "run", "batch.yaml")

    assert said.code == 0, said.err
    assert sorted(str(one) for one in other.rglob("*")) == listing


def test_cancelling_a_killed_batch_ends_it_and_leaves_no_container(user):
    process = user.start("batch", "run", "batch.yaml")
    wait_for(process, "quick: verified", "slow: working")
    wait_until_started(user)
    process.kill()
    process.communicate(timeout=60)
    standing = user.run("batch", "status", "--json").json
    batch_id = standing["batch_id"]
    assert standing["unattended"]
    assert f"`forkyard batch resume {batch_id}`" in user.run("batch", "status").text

    said = user.run("batch", "cancel", batch_id, "--json")

    assert (said.code, said.json["cancelled_tasks"]) == (0, 1)
    assert list_containers(user) == []
    standing = user.run("batch", "status", "--json").json["counts"]["outcome"]
    assert standing == {"cancelled": 1, "verified": 1}
