"""A host that is short of disk: what waits says so, and goes on when there is room."""

import os
from dataclasses import replace

import pytest
from cli_user import FIX, User, batch_text, script

pytestmark = [pytest.mark.engine, pytest.mark.slow]

POLICY = "repair" if os.geteuid() == 0 else "repair-watched"


def test_a_batch_waits_for_room_says_why_and_ends_as_wanted_when_there_is_some(tmp_path):
    user = User(tmp_path)
    user.make_repository()
    user.write("batch.yaml", batch_text([("one", script(FIX), "verified")], policy=POLICY))
    short = replace(user, env={"FORKYARD_LEAST_FREE_MIB": str(2**40)})
    assert user.run("batch", "submit", "batch.yaml").code == 0

    status = short.run("batch", "status", "--json").json
    words = short.run("batch", "status").text
    with short.start("batch", "resume") as waiting:
        first = waiting.stderr.readline().decode()
        waiting.terminate()
        waiting.communicate(timeout=20)

    assert f"{2**40} are needed to start" in status["waiting_because"]
    assert status["counts"]["state"] == {"queued": 1}
    assert "no run starts here: home (" in words
    assert " one: waiting for room: home (" in first
    assert "are needed to start" in first
    assert user.run("batch", "status", "--json").json["waiting_because"] is None
    assert user.run("batch", "resume").code == 0


def test_a_setting_that_is_no_number_is_said_to_be_none(tmp_path):
    user = User(tmp_path, env={"FORKYARD_LEAST_FREE_INODES": "many"})

    said = user.run("batch", "status")

    assert said.code == 2
    assert "FORKYARD_LEAST_FREE_INODES" in said.err
