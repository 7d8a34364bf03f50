"""`setup` of a batch file as a user, on a real engine."""

import json
import os
import signal
import sqlite3
import time
import zipfile
from contextlib import closing

import docker
import pytest
from cli_user import FIX, User, batch_text, reply, script

pytestmark = [pytest.mark.engine, pytest.mark.slow]

POLICY = "repair" if os.geteuid() == 0 else "repair-watched"
LOOK = (
    "cat /proc/net/dev | grep -c : ; python3 -c 'import dep; print(dep.VALUE)'; "
    "cat $HOME/interfaces; cat made.txt; git status --short"
)
SETUP = (
    "pip install --user --no-index --find-links wheels dep && echo extra > made.txt && "
    "grep -c : /proc/net/dev > $HOME/interfaces && echo it is done"
)


def shell(command):
    return reply("shell", command=command)


def make_wheel(path):
    """Write a wheel of one module by hand: no build tool, no network."""
    path.parent.mkdir(parents=True, exist_ok=True)
    info = "dep-1.0.dist-info"
    files = {
        "dep.py": "VALUE = 'forty-two'\n",
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: dep\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{name},,\n" for name in (*files, f"{info}/RECORD"))
    with zipfile.ZipFile(path, "w") as wheel:
        for name, text in {**files, f"{info}/RECORD": record}.items():
            wheel.writestr(name, text)


def setup_text(command, **fields):
    return json.dumps({"argv": ["sh", "-c", command], **fields})


def with_setup(text, setup):
    return text.replace("defaults:\n", f"defaults:\n  setup: {setup}\n")


@pytest.fixture(scope="module")
def user(tmp_path_factory):
    user = User(tmp_path_factory.mktemp("user"))
    make_wheel(user.folder / "code/wheels/dep-1.0-py3-none-any.whl")
    user.write(
        "code/tests/check.sh",
        """\
        #!/bin/sh
        python3 -c 'import dep' && grep -q extra made.txt && grep -q fixed answer
        """,
    )
    user.git("init", "--quiet", "--initial-branch=main")
    user.git("add", ".")
    user.git("commit", "--quiet", "-m", "base")
    return user


@pytest.fixture(scope="module")
def ran(user):
    tasks = [
        ("one", script(shell(LOOK), FIX), "verified"),
        ("two", script(shell(LOOK), FIX), "verified"),
        ("spoils", script(shell("pip uninstall -y dep; rm made.txt"), FIX), "verified"),
    ]
    text = batch_text(tasks, policy=POLICY, extra="budget: {tasks_parallel: 3}")
    user.write("batch.yaml", with_setup(text, setup_text(SETUP, network="open")))
    said = user.run("batch", "run", "batch.yaml", "--json")
    assert said.code == 0, said.err + said.text
    return said.json


def read_result(user, name):
    return json.loads((user.folder / "results/small/latest" / name / "result.json").read_bytes())


def count_kept(user):
    with closing(sqlite3.connect(user.home / "store.db")) as store:
        return store.execute("SELECT count(*) FROM setups").fetchone()[0]


@pytest.mark.parametrize("name", ["one", "two"])
def test_dependencies_are_there_without_a_network(user, ran, name):
    (look, *_) = read_result(user, name)["timeline"]

    assert "1\nforty-two\n2\nextra\n?? made.txt" in look["text"]


def test_the_verification_has_what_setup_left_and_not_what_the_agent_made_of_it(user, ran):
    assert ran["outcomes"]["spoils"] == "verified"


def test_the_setup_ran_once_for_all_tasks(user, ran):
    setups = [read_result(user, name)["setup"] for name in ("one", "two", "spoils")]

    assert all(one["passed"] for one in setups)
    assert sorted(one["reused"] for one in setups) == [False, True, True]


def test_the_patch_holds_nothing_of_the_setup(user, ran):
    patch = (user.folder / "results/small/latest/one/changes.patch").read_text()

    assert "answer" in patch
    assert "made.txt" not in patch


def test_each_task_has_the_setups_log(user, ran):
    for name in ran["outcomes"]:
        log = (user.folder / "results/small/latest" / name / "setup.log").read_text()
        assert log.startswith('{"ending":"exited","exit_code":0,"run":1}\n')
        assert "it is done" in log


def test_a_later_batch_uses_what_the_store_keeps(user, ran):
    text = batch_text([("later", script(FIX), "verified")], policy=POLICY)
    user.write("later.yaml", with_setup(text, setup_text(SETUP, network="open")))

    said = user.run("batch", "run", "later.yaml", "--json")

    assert said.code == 0, said.err + said.text
    assert read_result(user, "later")["setup"]["reused"]


def test_without_network_a_setup_has_no_interface(user, ran):
    command = "test $(grep -c : /proc/net/dev) = 1 && echo extra > made.txt"
    text = batch_text([("closed", script(FIX), "not_verified")], policy=POLICY)
    user.write("closed.yaml", with_setup(text, setup_text(command)))

    said = user.run("batch", "run", "closed.yaml", "--json")

    assert said.code == 0, said.err + said.text


def test_check_says_what_would_be_run(user):
    text = batch_text([("one", script(FIX), "verified")], policy=POLICY)
    user.write("check.yaml", with_setup(text, setup_text("make deps", timeout_seconds=9)))

    said = user.run("batch", "check", "check.yaml")
    as_json = user.run("batch", "check", "check.yaml", "--json")

    assert "setup: sh -c 'make deps' (network none, at most 9 s)" in said.text
    assert as_json.json["tasks"][0]["setup"]["argv"] == ["sh", "-c", "make deps"]


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("echo no such thing >&2; exit 7", "exit code 7; it said last: no such thing"),
        ("echo waiting; sleep 60", "timed out after 2 s (setup.timeout_seconds)"),
        ("echo more >> tests/check.sh", "tests/check.sh modified"),
        ("truncate -s 300M $HOME/big", "no snapshot holds (home/big: larger than"),
    ],
)
def test_a_setup_that_fails_ends_the_task_as_no_failure_of_the_agent(user, command, reason):
    text = batch_text([("one", script(FIX), "infrastructure_error")], policy=POLICY)
    user.write("fails.yaml", with_setup(text, setup_text(command, timeout_seconds=2)))

    said = user.run("batch", "run", "fails.yaml", "--json")

    assert said.code == 0, said.err + said.text
    result = read_result(user, "one")
    assert reason in result["reason"]
    assert result["setup"]["passed"] is False
    assert result["timeline"] == []
    assert (user.folder / "results/small/latest/one/setup.log").read_bytes()


def test_a_setup_that_was_killed_half_way_is_run_again_and_leaves_nothing(user, ran):
    command = f"{SETUP}; test -e $HOME/never || sleep 3"
    text = batch_text([("again", script(FIX), "verified")], policy=POLICY)
    user.write("killed.yaml", with_setup(text, setup_text(command)))
    client = docker.from_env()
    instance = f"forkyard.instance={(user.home / 'instance').read_text().strip()}"
    labels = [instance, "forkyard.purpose=setup"]
    kept_before = count_kept(user)
    process = user.start("batch", "run", "killed.yaml")
    deadline = time.monotonic() + 60
    while not client.containers.list(filters={"label": labels}):
        assert time.monotonic() < deadline, "no container of a setup was seen"
        time.sleep(0.1)
    process.send_signal(signal.SIGKILL)
    process.communicate()

    said = user.run("batch", "resume", "--json")

    assert said.code == 0, said.err + said.text
    assert said.json["outcomes"] == {"again": "verified"}
    assert not read_result(user, "again")["setup"]["reused"]
    assert client.containers.list(all=True, filters={"label": [instance]}) == []
    client.close()
    assert count_kept(user) == kept_before + 1
