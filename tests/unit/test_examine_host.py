"""The examination of a host, on doubles: what it finds, and what it says when it cannot look."""

from __future__ import annotations

from dataclasses import replace

import pytest
from doctor_builders import (
    HELD,
    HOST,
    FixedSurvey,
    make_doctor,
    make_memory_host,
    make_policy,
)

from policies import Limits, Network, NetworkMode
from runner.application.examine_host import examine_host, lower_limits
from runner.entrypoints.examined import Examined
from runner.entrypoints.render import render_answer
from sandbox import EngineError, SandboxLostError, Standing
from sandbox.testing import Fault, FaultPoint

ANSWERS = {
    **HELD,
    "pids": "refused\tEAGAIN after 61",
    "disk": "refused\tENOSPC after 66",
    "inodes": "refused\tENOSPC after 990",
}
NOT_SIMULATED = {"CPU", "output", "time limit"}
"""The double counts no CPU time and no processes; its program prints little."""


def examine(host=None, *, survey=None, policy=None, image="python", answers=ANSWERS):
    doctor = make_doctor(host or make_memory_host(answers), survey or FixedSurvey())
    return examine_host(policy or make_policy(), image, doctor=doctor)


def standings(found):
    return {one.guard: one.standing for one in found.guards}


def text(found):
    return render_answer(Examined(found), as_json=False).decode()


def test_guards_that_hold_are_proved_and_nothing_stays_open():
    host = make_memory_host(ANSWERS)

    found = examine(host)

    proved = {name for name, one in standings(found).items() if one is Standing.PROVED}
    assert set(standings(found)) - proved == NOT_SIMULATED
    assert (found.lacks, host.open, host.opened) == ((), [], 1)


def test_a_guard_that_breaks_is_the_only_one_to_fail():
    found = examine(answers={**ANSWERS, "root": "make a folder in /etc\tdone"})

    failed = {name for name, one in standings(found).items() if one is Standing.FAILED}
    assert failed - NOT_SIMULATED == {"read-only root"}
    assert Examined(found).exit_code == 1
    assert "read-only root   FAILED" in text(found)


def test_without_an_engine_the_host_is_described_and_the_exit_code_is_3():
    found = examine(survey=FixedSurvey(engine=None))

    assert set(standings(found).values()) == {Standing.NOT_POSSIBLE}
    assert [(one.what, one.reason) for one in found.lacks] == [
        ("engine", "the engine does not answer")
    ]
    assert found.host is HOST
    assert Examined(found).exit_code == 3
    assert "engine     none answers" in text(found)


def test_an_image_that_is_not_there_is_named_and_nothing_is_made():
    host = make_memory_host(ANSWERS)

    found = examine(host, image="other")

    assert set(standings(found).values()) == {Standing.NOT_POSSIBLE}
    assert "'other'" in found.lacks[0].reason
    assert host.opened == 0


def test_an_image_without_python_is_no_broken_guard():
    host = make_memory_host(ANSWERS)
    host.programs.clear()

    found = examine(host)

    assert set(standings(found).values()) == {Standing.NOT_POSSIBLE}
    assert "python3, which the probes need, does not run (exit code 127)" in found.lacks[0].reason


def test_the_guard_that_costs_the_container_failed_and_the_rest_is_tried_in_another():
    host = make_memory_host(ANSWERS)
    host.plan(Fault(FaultPoint.AFTER_RUN, SandboxLostError("gone"), skip=2))

    found = examine(host)

    assert standings(found)["kernel settings"] is Standing.FAILED
    assert standings(found)["no names"] is Standing.PROVED
    assert host.opened == 2


def test_an_engine_that_fails_midway_leaves_what_was_proved():
    host = make_memory_host(ANSWERS)
    host.plan(Fault(FaultPoint.BEFORE_RUN, EngineError("the engine stopped"), skip=2))

    found = examine(host)

    assert standings(found)["read-only root"] is Standing.PROVED
    assert standings(found)["kernel settings"] is Standing.NOT_POSSIBLE
    assert found.lacks[0].reason == "the engine stopped"
    assert Examined(found).exit_code == 3


def test_a_hard_disk_limit_that_this_host_cannot_hold_is_refused_and_the_rest_is_tried():
    found = examine(survey=FixedSurvey(host=replace(HOST, is_root=False)))

    assert standings(found)["disk"] is Standing.NOT_POSSIBLE
    assert standings(found)["inodes"] is Standing.NOT_POSSIBLE
    assert standings(found)["read-only root"] is Standing.PROVED
    assert [one.what for one in found.lacks] == ["hard disk limit"]
    assert "needs root: `disk: hard`" in text(found)


def test_an_open_network_is_said_to_be_the_policys_wish():
    policy = make_policy(network=Network(mode=NetworkMode.OPEN))

    found = examine(policy=policy)

    assert standings(found)["no connections"] is Standing.NOT_ASKED
    assert "not asked for" in text(found)


@pytest.mark.parametrize(("asked", "given"), [(4096, 128), (64, 64)])
def test_probes_get_no_more_than_the_policy_allows(asked, given):
    assert lower_limits(Limits(memory_mib=asked)).memory_mib == given


def test_the_object_for_scripts_names_every_guard_and_its_standing():
    shown = Examined(examine()).to_json()

    assert shown["schema"] == 1
    assert shown["guards"][0] == {
        "guard": "read-only root",
        "tries": "make folders in the image and in the base repository",
        "standing": "proved",
        "fact": "1 tried: EROFS",
    }
    assert shown["engine"]["version"] == "20.10.24"
    assert shown["host"]["features"][0]["name"] == "loop devices"
