"""The runner is killed while a task hides a process (CASES.md: 16): nothing of it survives."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest
from cli_user import FIX, User, batch_text, reply, script

pytestmark = [pytest.mark.engine, pytest.mark.slow]

POLICY = "repair" if os.geteuid() == 0 else "repair-watched"
HIDING = """
import os, signal, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for number in range(1, 65):
            try: signal.signal(number, signal.SIG_IGN)
            except (OSError, ValueError): pass
        os.execvp("sleep", ["sleep", SECONDS])
    os._exit(0)
os.wait()
time.sleep(6)
"""


def find_sleepers(seconds: str) -> list[str]:
    """List the host's processes that sleep for so many seconds."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if path.read_bytes() == f"sleep\0{seconds}\0".encode():
                found.append(str(path))
        except OSError:  # it ended meanwhile
            continue
    return found


def wait_until(holds) -> None:
    until = time.monotonic() + 40
    while not holds():
        assert time.monotonic() < until, "it did not come about"
        time.sleep(0.05)


def list_all_of(user: User) -> list[str]:
    """List what there is of this home on the host and its engine."""
    instance = (user.home / "instance").read_text().strip()
    wanted = ["--filter", f"label=forkyard.instance={instance}", "--all", "--quiet"]
    containers = subprocess.run(["docker", "ps", *wanted], capture_output=True, check=True).stdout
    mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    volumes = [str(one) for one in (user.home / "work").glob("[!.]*")]
    return [
        *containers.decode().split(),
        *(one for one in mounts if str(user.home) in one),
        *volumes,
    ]


def test_case_16_after_a_kill_in_mid_call_no_hidden_process_survives(tmp_path):
    user = User(tmp_path)
    user.make_repository()
    seconds = f"9{os.getpid()}"  # tells our process from all others
    hide = HIDING.replace("SECONDS", f'"{seconds}"')
    tasks = [
        ("hostile", script(reply("shell", command=f"python3 -c '{hide}'")), "not_verified"),
        ("sibling", script(FIX), "verified"),
    ]
    user.write("batch.yaml", batch_text(tasks, policy=POLICY))
    runner = user.start("batch", "run", "batch.yaml")
    wait_until(lambda: find_sleepers(seconds))
    runner.kill()
    runner.communicate(timeout=60)
    assert find_sleepers(seconds)  # the engine does not end it with its client

    resumed = user.run("batch", "resume", "--json")

    assert resumed.code == 0, resumed.err + resumed.text
    assert resumed.json["outcomes"] == {"hostile": "not_verified", "sibling": "verified"}
    assert find_sleepers(seconds) == []
    assert list_all_of(user) == []
    log = user.run("task", "log", resumed.json["task_ids"]["hostile"], "--json").json["items"]
    payloads = [one["item"]["payload"] for one in log]
    attempts = [one["attempt"] for one in payloads if one["kind"] == "execution"]
    assert 2 in attempts
