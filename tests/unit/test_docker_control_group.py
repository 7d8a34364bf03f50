from pathlib import Path

import pytest

from sandbox import SandboxLostError, UnsupportedError
from sandbox.docker.control_group import (
    ControlGroupV1,
    ControlGroupV2,
    Counters,
    find_control_group,
)


def lay_out(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_version_1_is_found_and_read_controller_by_controller(tmp_path):
    cg = tmp_path / "cg"
    names = ("memory", "pids", "freezer", "cpuacct")
    lay_out(
        tmp_path,
        {
            "proc/7/cgroup": "".join(f"{i}:{n}:/docker/x\n" for i, n in enumerate(names)),
            "proc/self/mountinfo": "".join(
                f"1 2 0:3 / {cg}/{n} rw - cgroup cgroup rw,{n}\n" for n in names
            ),
            "cg/memory/docker/x/memory.oom_control": "oom_kill_disable 0\noom_kill 3\n",
            "cg/pids/docker/x/pids.events": "max 4\n",
            "cg/pids/docker/x/pids.current": "2\n",
            "cg/cpuacct/docker/x/cpuacct.usage": "1500000000\n",
            "cg/freezer/docker/x/cgroup.procs": "7\n8\n",
        },
    )

    group = find_control_group(7, proc=tmp_path / "proc")

    assert isinstance(group, ControlGroupV1)
    assert group.read_counters() == Counters(oom_kills=3, pids_refused=4, cpu_seconds=1.5)
    assert (group.count_tasks(), group.list_pids()) == (2, (7, 8))


def test_version_2_is_found_and_read_from_one_directory(tmp_path):
    lay_out(
        tmp_path,
        {
            "proc/7/cgroup": "0::/system.slice/docker-x.scope\n",
            "proc/self/mountinfo": f"1 2 0:3 / {tmp_path}/cg rw - cgroup2 cgroup2 rw\n",
            "cg/system.slice/docker-x.scope/memory.events": "oom 1\noom_kill 2\n",
            "cg/system.slice/docker-x.scope/pids.events": "max 0\n",
            "cg/system.slice/docker-x.scope/pids.current": "3\n",
            "cg/system.slice/docker-x.scope/cpu.stat": "usage_usec 250000\nuser_usec 1\n",
            "cg/system.slice/docker-x.scope/cgroup.procs": "7\n",
        },
    )

    group = find_control_group(7, proc=tmp_path / "proc")

    assert isinstance(group, ControlGroupV2)
    assert group.read_counters() == Counters(oom_kills=2, pids_refused=0, cpu_seconds=0.25)
    assert (group.count_tasks(), group.list_pids()) == (3, (7,))


def test_a_group_of_another_namespace_is_refused(tmp_path):
    lay_out(
        tmp_path,
        {
            "proc/7/cgroup": "0::/../../docker-x.scope\n",
            "proc/self/mountinfo": f"1 2 0:3 / {tmp_path}/cg rw - cgroup2 cgroup2 rw\n",
        },
    )

    with pytest.raises(UnsupportedError, match="not visible"):
        find_control_group(7, proc=tmp_path / "proc")


def test_a_group_that_vanished_means_a_lost_sandbox(tmp_path):
    with pytest.raises(SandboxLostError):
        ControlGroupV2(tmp_path / "gone").count_tasks()
