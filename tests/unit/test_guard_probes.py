"""Each probe's judge finds its guard whole where it held, and broken where it did not."""

from __future__ import annotations

import pytest
from doctor_builders import HELD, answer, make_settings

from policies import DiskLimit, Mount, Network, NetworkMode
from sandbox import CappedOutput, Ending, Standing, make_probes

TIMED_OUT = answer(ending=Ending.TIMED_OUT, exit_code=None, wall_seconds=2.1, killed_processes=2)
GONE = answer(HELD["survivors"])
FULL = {"ending": Ending.DISK_FULL, "exit_code": 1}
BESIDE = answer("MiB beside the volume\t16")
KEPT = CappedOutput(head=b"x" * 65536, total_bytes=8 * 1024 * 1024 + 4)


def judge(guard, results, **settings):
    probe = next(one for one in make_probes(make_settings(**settings)) if one.guard == guard)
    assert len(results) == len(probe.commands)
    return probe.judge(results)


@pytest.mark.parametrize(
    ("guard", "held", "broken"),
    [
        ("read-only root", "make a folder in /etc\tEROFS", "make a folder in /etc\tdone"),
        # permissions alone refused it: the root is not read-only
        ("read-only root", "the root is mounted\tro", "make a folder in /etc\tEACCES"),
        ("read-only root", "the root is mounted\tro", "the root is mounted\trw"),
        ("kernel settings", "open /proc/sysrq-trigger\tEACCES", "make a disk device\tdone"),
        ("kernel settings", "read /proc/kcore\tempty", "read /proc/kcore\tread"),
        ("no names", "resolve example.com\tEAI_AGAIN", "resolve example.com\tTrue"),
        ("no names", "a way to 1.1.1.1:53\tENETUNREACH", "a way to 1.1.1.1:53\tthere is one"),
        ("no connections", "connect to 1.1.1.1:443\tENETUNREACH", "connect to x\tconnected"),
        # somebody was reached who did not answer, or said no
        ("no connections", "interfaces beside loopback\tnone", "connect to x\tno answer"),
        ("no connections", "interfaces beside loopback\tnone", "connect to x\tECONNREFUSED"),
        ("no connections", "interfaces beside loopback\tnone", "interfaces beside lo\teth0"),
        ("control sockets", "connect to /run/docker.sock\tENOENT", "connect to x\tEACCES"),
        ("control sockets", "abstract sockets\tnone", "abstract sockets\t@/containerd-shim"),
        ("privileges", "CapEff\tnone", "CapEff\t00000000a80425fb"),
        ("privileges", "NoNewPrivs\theld", "NoNewPrivs\tabsent"),
        ("privileges", "run /usr/bin/su\town user", "run /usr/bin/su\truns as user 0"),
        ("privileges", "become user 0\tEPERM", "become user 0\tdone"),
        ("system calls", "io_uring_setup\tEPERM", "io_uring_setup\tEFAULT"),
        ("system calls", "socket AF_ALG\tEAFNOSUPPORT", "socket AF_ALG\tmade"),
        ("system calls", "bpf\tEPERM", "system calls of this machine\tunknown"),
        ("other processes", "processes of others\tnone", "processes of others\tdockerd"),
        ("other processes", "signal init\tEPERM", "signal init\tdone"),
        ("core dumps", "crash\tno core dump", "crash\ta core dump"),
        ("core dumps", "limit on core dumps\tnone allowed", "raise that limit\tdone"),
    ],
)
def test_what_was_refused_proves_a_guard_and_anything_else_breaks_it(guard, held, broken):
    assert judge(guard, [answer(held)]).standing is Standing.PROVED
    found = judge(guard, [answer(f"{held}\n{broken}")])
    assert found.standing is Standing.FAILED
    assert found.fact == broken.replace("\t", ": ")


@pytest.mark.parametrize("probe", make_probes(make_settings()), ids=lambda one: one.guard)
def test_a_probe_that_gives_no_answer_proves_nothing(probe):
    silent = [answer(whole=False, exit_code=1, wall_seconds=1.0) for _ in probe.commands]

    assert probe.judge(silent).standing is Standing.FAILED


def test_a_probe_that_was_cut_off_proves_nothing():
    cut = answer("make a folder in /\tEROFS", whole=False)

    assert judge("read-only root", [cut]).standing is Standing.FAILED


def test_a_host_that_pipes_crashes_to_a_program_cannot_hold_the_guard():
    found = judge("core dumps", [answer("crashes go to\ta program\ncrash\ta core dump")])

    assert found.standing is Standing.NOT_POSSIBLE
    assert "core_pattern" in found.fact


@pytest.mark.parametrize(
    ("guard", "held", "broken"),
    [
        ("time limit", [TIMED_OUT, GONE], [answer(), GONE]),
        (
            "time limit",
            [TIMED_OUT, GONE],
            [TIMED_OUT, answer(HELD["survivors"].replace("writes\tno", "writes\tyes"))],
        ),
        (
            "time limit",
            [TIMED_OUT, GONE],
            [TIMED_OUT, answer(HELD["survivors"].replace("left\tnone", "left\tforkyard-beat"))],
        ),
        # nothing had been left behind: nothing was proved
        (
            "time limit",
            [TIMED_OUT, GONE],
            [TIMED_OUT, answer(HELD["survivors"].replace("lived\tyes", "lived\tno"))],
        ),
        (
            "time limit",
            [TIMED_OUT, GONE],
            [answer(ending=Ending.TIMED_OUT, wall_seconds=60.0, killed_processes=2), GONE],
        ),
        ("memory", [answer(ending=Ending.OUT_OF_MEMORY)], [answer("got\t512 MiB")]),
        ("memory", [answer(ending=Ending.OUT_OF_MEMORY)], [answer(ending=Ending.KILLED)]),
        (
            "processes",
            [answer("refused\tEAGAIN after 61", ending=Ending.RESOURCE_LIMIT)],
            [answer("got\t128 processes")],
        ),
        (
            "processes",
            [answer("refused\tEAGAIN after 61", ending=Ending.RESOURCE_LIMIT)],
            [answer("refused\tEAGAIN after 100", ending=Ending.RESOURCE_LIMIT)],
        ),
        (
            "processes",
            [answer("refused\tEAGAIN after 61", ending=Ending.RESOURCE_LIMIT)],
            [answer("refused\tEAGAIN after 61")],
        ),
        (
            "open files",
            [answer("refused\tEMFILE after 253")],
            [answer("refused\tEMFILE after 300")],
        ),
        ("open files", [answer("refused\tEMFILE after 253")], [answer("got\t512 files")]),
        (
            "CPU",
            [answer(cpu_seconds=1.0, wall_seconds=1.0)],
            [answer(cpu_seconds=2.0, wall_seconds=1.0)],
        ),
        ("output", [answer(stdout=KEPT)], [answer(stdout=CappedOutput(head=b"x" * 65537))]),
        (
            "disk",
            [answer("refused\tENOSPC after 66", **FULL), BESIDE],
            [answer("got\t128 MiB"), BESIDE],
        ),
        (
            "disk",
            [answer("refused\tENOSPC after 66", **FULL), BESIDE],
            [answer("refused\tENOSPC after 100", **FULL), BESIDE],
        ),
        (
            "disk",
            [answer("refused\tENOSPC after 66", **FULL), BESIDE],
            [answer("refused\tENOSPC after 66", exit_code=1), BESIDE],
        ),
        # the volume is limited, but another place leads to the host's disk
        (
            "disk",
            [answer("refused\tENOSPC after 66", **FULL), BESIDE],
            [answer("refused\tENOSPC after 66", **FULL), answer("MiB beside the volume\t250000")],
        ),
        (
            "inodes",
            [answer("refused\tENOSPC after 990", **FULL), answer()],
            [answer("got\t3000 files"), answer()],
        ),
    ],
)
def test_a_limit_is_proved_by_how_the_command_ended(guard, held, broken):
    assert judge(guard, held).standing is Standing.PROVED
    assert judge(guard, broken).standing is Standing.FAILED


def test_a_watched_disk_is_proved_by_its_ending_and_called_sampled():
    written = answer("got\t128 MiB", ending=Ending.DISK_FULL)
    unnoticed = answer("got\t128 MiB")

    found = judge("disk", [written, BESIDE], disk=DiskLimit.WATCHED)

    assert found.standing is Standing.PROVED
    assert "sampled" in found.fact
    missed = judge("disk", [unnoticed, BESIDE], disk=DiskLimit.WATCHED)
    assert missed.standing is Standing.FAILED


def test_an_open_network_is_not_tried():
    probes = make_probes(make_settings(network=Network(mode=NetworkMode.OPEN)))

    network = [one for one in probes if one.guard in ("no names", "no connections")]
    assert [one.commands for one in network] == [(), ()]
    assert {one.judge(()).standing for one in network} == {Standing.NOT_ASKED}


def test_a_policys_own_writable_mounts_do_not_count_as_room_beside_the_volume():
    mounts = (Mount(source="/srv/cache", target="/cache", writable=True),)
    probes = make_probes(make_settings(mounts=mounts))

    disk = next(one for one in probes if one.guard == "disk")
    assert disk.commands[1].argv[-1] == "/cache"


def test_guards_have_names_of_their_own():
    names = [one.guard for one in make_probes(make_settings())]

    assert len(names) == len(set(names)) == 17
