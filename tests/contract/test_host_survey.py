"""One contract for the survey of this host and its double."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from doctor_builders import FixedSurvey
from sandbox_builders import open_test_engine

from sandbox import EngineUnavailableError
from sandbox.docker.engine import DEFAULT_URL
from sandbox.docker.survey import DockerSurvey


@pytest.fixture(params=["fixed", pytest.param("docker", marks=pytest.mark.engine)])
def survey(request, tmp_path):
    if request.param == "fixed":
        yield FixedSurvey()
        return
    with open_test_engine():
        yield DockerSurvey(DEFAULT_URL, home=tmp_path / "not" / "there" / "yet")


@pytest.fixture(params=["fixed", "docker"])
def silent(request, tmp_path):
    if request.param == "fixed":
        return FixedSurvey(engine=None)
    return DockerSurvey(f"unix://{tmp_path}/no.sock", home=tmp_path)


def test_an_engine_says_what_it_is(survey):
    engine = survey.describe_engine()

    assert engine.version.split(".")[0].isdecimal()
    assert engine.api_version.startswith("1.")
    assert engine.cgroup_version in (1, 2)
    assert engine.storage_driver
    assert engine.runc_version
    assert engine.has("seccomp")
    assert (engine.cpus > 0, engine.memory_mib > 0) == (True, True)


def test_a_host_says_what_it_has(survey):
    host = survey.describe_host()

    assert host.git_version.startswith("2.")
    assert 0 < host.disk_free_mib <= host.disk_total_mib
    assert 0 < host.memory_free_mib <= host.memory_total_mib
    assert host.find("loop devices") is not None
    assert host.find("nothing of the kind") is None


def test_an_engine_that_does_not_answer_is_said_to_be_silent_and_the_host_is_described(silent):
    with pytest.raises(EngineUnavailableError):
        silent.describe_engine()
    assert silent.describe_host().disk_total_mib > 0


def test_features_are_those_of_this_host(tmp_path):
    host = DockerSurvey(DEFAULT_URL, home=tmp_path).describe_host()

    features = {one.name: one for one in host.features}
    assert features["loop devices"].present == Path("/dev/loop-control").exists()
    assert features["mkfs.ext4"].present == (shutil.which("mkfs.ext4") is not None)
    assert features["IPv6"].present == Path("/proc/sys/net/ipv6").is_dir()
    assert features["mount propagation"].fact in ("shared", "private")
    assert set(features) >= {"ext4", "user namespaces", "core dumps go to"}
