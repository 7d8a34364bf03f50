"""What a policy needs of an engine and a host, and what of it is missing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from doctor_builders import ENGINE, HOST

from policies import DiskLimit, Limits, SandboxPolicy
from runner.application.host_needs import find_lacks, find_untested, list_root_needs
from sandbox.docker.host_features import find_mount
from sandbox.docker.survey import make_engine_facts

MOUNTS = """\
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
30 22 0:30 / /home rw,relatime - xfs /dev/vdb rw
31 30 0:31 / /home/a\\040b rw,relatime - tmpfs none rw
"""


def names(**changes):
    values = {"engine": ENGINE, "host": HOST, "memory_mib": 7000, **changes}
    policy = values.pop("policy", SandboxPolicy())
    return [one.what for one in find_lacks(policy, **values)]


def test_a_host_that_has_everything_lacks_nothing():
    assert names() == []


@pytest.mark.parametrize(
    ("changes", "lack"),
    [
        ({"host": replace(HOST, is_root=False)}, "hard disk limit"),
        ({"host": replace(HOST, features=HOST.features[:1])}, "mkfs.ext4"),
        ({"host": replace(HOST, git_version="")}, "git"),
        ({"host": replace(HOST, disk_free_mib=4095)}, "disk space"),
        ({"memory_mib": 2047}, "memory"),
        ({"engine": replace(ENGINE, security_options=())}, "seccomp"),
        ({"engine": replace(ENGINE, missing_limits=("processes",))}, "limit on processes"),
        ({"policy": SandboxPolicy(limits=Limits(disk_mib=60_000))}, "disk space"),
    ],
)
def test_each_lack_is_named(changes, lack):
    assert names(**changes) == [lack]


def test_a_watched_disk_needs_no_root():
    policy = SandboxPolicy(disk=DiskLimit.WATCHED)

    assert names(policy=policy, host=replace(HOST, is_root=False, features=())) == []


def test_only_the_engine_that_was_tested_is_called_tested():
    assert find_untested(ENGINE) == ()
    other = replace(ENGINE, version="29.1.0", cgroup_version=2, security_options=("rootless",))
    assert find_untested(other) == (
        "engine 29.1.0: tested is 20.10",
        "control groups version 2: tested is 1",
        "engine with rootless: tested without",
    )


def test_what_needs_root_is_named_to_others():
    assert list_root_needs(HOST) == ()
    assert any("disk: hard" in one for one in list_root_needs(replace(HOST, is_root=False)))


def test_an_engine_that_tells_little_is_described_all_the_same():
    facts = make_engine_facts({"ServerVersion": "19.3"}, {"ApiVersion": "1.40"})

    assert (facts.version, facts.cgroup_version, facts.runc_version) == ("19.3", 1, "")


def test_limits_that_the_engine_says_it_lacks_are_missing():
    info = {
        "ServerVersion": "28.2",
        "CgroupVersion": "2",
        "PidsLimit": False,
        "MemoryLimit": True,
        "SecurityOptions": ["name=seccomp,profile=builtin", "name=rootless"],
        "DriverStatus": [["Backing Filesystem", "xfs"]],
    }

    facts = make_engine_facts(
        info, {"ApiVersion": "1.50", "Components": [{"Name": "runc", "Version": "1.3.6"}]}
    )

    assert facts.missing_limits == ("processes",)
    assert facts.security_options == ("seccomp", "rootless")
    assert (facts.backing_filesystem, facts.runc_version) == ("xfs", "1.3.6")


@pytest.mark.parametrize(
    ("place", "found"),
    [
        ("/srv/x", ("shared", "ext4")),
        ("/home/c", ("private", "xfs")),
        ("/home/a b/c", ("private", "tmpfs")),
        ("/homely", ("shared", "ext4")),
    ],
)
def test_the_nearest_mount_above_a_path_counts(place, found):
    assert find_mount(Path(place), MOUNTS) == found
