import copy
import dataclasses
import errno
import json

import pytest

from policies import Limits, Mount, Network, NetworkMode, RootFilesystem
from sandbox import CommitId, RepositoryId, SandboxSpec, Snapshot, SnapshotId, UnsupportedError
from sandbox.docker.specification import (
    ContainerPlace,
    list_drift,
    make_create_body,
    make_name,
    read_seccomp_profile,
)

PLACE = ContainerPlace(
    instance_id="i1", uid=1000, gid=1001, files="/h/work/t1/files", base_repository="/h/base.git"
)
SNAPSHOT = Snapshot(
    snapshot_id=SnapshotId("sha256:1"),
    content_id="sha256:2",
    repository_id=RepositoryId("r"),
    base_commit=CommitId("0" * 40),
    commit=CommitId("1" * 40),
    source_tree="t",
    full_tree="f",
)


def make_spec(**changes):
    values = {
        "task_id": "t1",
        "attempt": 2,
        "image": "sha256:abc",
        "start": SNAPSHOT,
        "limits": Limits(memory_mib=64, cpu_thousandths=250, pids=50, open_files=512),
        "network": Network(),
    }
    return SandboxSpec(**{**values, **changes})


def make_found(body):
    """Return what an engine says of a container made exactly from a body."""
    return {
        "Config": copy.deepcopy({key: body[key] for key in body if key != "HostConfig"}),
        "HostConfig": copy.deepcopy(body["HostConfig"]),
        "Mounts": [{"Destination": one["Target"]} for one in body["HostConfig"]["Mounts"]],
    }


def test_the_body_is_the_hardened_one_line_by_line():
    body = make_create_body(make_spec(), PLACE)

    host = body.pop("HostConfig")
    assert host.pop("SecurityOpt") == [
        "no-new-privileges:true",
        f"seccomp={read_seccomp_profile()}",
    ]
    assert host == {
        "NetworkMode": "none",
        "ReadonlyRootfs": True,
        "CapDrop": ["ALL"],
        "PidsLimit": 50,
        "Memory": 64 * 1024 * 1024,
        "MemorySwap": 64 * 1024 * 1024,
        "OomScoreAdj": 500,
        "NanoCpus": 250_000_000,
        "Ulimits": [
            {"Name": "core", "Soft": 0, "Hard": 0},
            {"Name": "nofile", "Soft": 512, "Hard": 512},
        ],
        "IpcMode": "private",
        "CgroupnsMode": "private",
        "LogConfig": {"Type": "none", "Config": {}},
        "RestartPolicy": {"Name": "no", "MaximumRetryCount": 0},
        "AutoRemove": False,
        "Init": True,
        "Tmpfs": {"/run": "rw,nosuid,nodev,noexec,size=1m,nr_inodes=64,mode=1777"},
        "ShmSize": 16 * 1024 * 1024,
        "Sysctls": {
            "kernel.shm_rmid_forced": "1",
            "kernel.msgmni": "64",
            "kernel.sem": "250 32000 100 128",
            "net.ipv6.conf.all.disable_ipv6": "1",
        },
        "Mounts": [
            bind("/h/work/t1/files/workspace", "/workspace"),
            bind("/h/work/t1/files/home", "/home/agent"),
            bind("/h/work/t1/files/tmp", "/tmp"),
            {**bind("/h/base.git", "/forkyard/base.git"), "ReadOnly": True},
        ],
    }
    assert body.pop("Env")[0].startswith("PATH=/home/agent/.local/bin:/home/agent/.npm-global/bin")
    assert body == {
        "Image": "sha256:abc",
        "User": "65534:65534",
        "WorkingDir": "/",
        "Hostname": "sandbox",
        "Entrypoint": ["/bin/sleep", "infinity"],
        "Cmd": [],
        "AttachStdin": False,
        "AttachStdout": False,
        "AttachStderr": False,
        "Tty": False,
        "StopTimeout": 1,
        "Healthcheck": {"Test": ["NONE"]},
        "Labels": {
            "forkyard.instance": "i1",
            "forkyard.task": "t1",
            "forkyard.attempt": "2",
            "forkyard.purpose": "agent",
        },
    }


def bind(source, target):
    return {
        "Type": "bind",
        "Source": source,
        "Target": target,
        "BindOptions": {"Propagation": "rprivate"},
    }


def test_the_environment_is_ours_and_the_policys_and_nothing_of_the_runners():
    body = make_create_body(make_spec(environment=(("CI", "1"), ("LANG", "de_DE"))), PLACE)

    names = [line.partition("=")[0] for line in body["Env"]]
    assert sorted(names) == [
        "CI",
        "HOME",
        "LANG",
        "NPM_CONFIG_PREFIX",
        "PATH",
        "PIP_BREAK_SYSTEM_PACKAGES",
        "PYTHONDONTWRITEBYTECODE",
        "PYTHONHASHSEED",
        "TZ",
    ]
    assert "LANG=de_DE" in body["Env"]


def test_a_network_is_given_only_where_the_policy_says_open():
    opened = make_create_body(make_spec(network=Network(mode=NetworkMode.OPEN)), PLACE)

    assert opened["HostConfig"]["NetworkMode"] == "bridge"


def test_more_cpus_than_the_engine_has_are_held_by_what_it_has():
    place = dataclasses.replace(PLACE, cpus=2)

    body = make_create_body(make_spec(limits=Limits(cpu_thousandths=8000)), place)

    assert body["HostConfig"]["NanoCpus"] == 2_000_000_000


def test_volumes_that_the_image_declares_become_small_temporary_ones():
    place = ContainerPlace(
        instance_id="i1",
        uid=1,
        gid=1,
        files="/f",
        base_repository="/b",
        image_volumes=("/data", "/tmp"),
    )

    mounts = make_create_body(make_spec(), place)["HostConfig"]["Mounts"]

    assert [one["Target"] for one in mounts if one["Type"] == "tmpfs"] == ["/data"]


@pytest.mark.parametrize(
    "changes",
    [
        {"network": Network(mode=NetworkMode.ALLOWLIST, hosts=("example.org",))},
        {"rootfs": RootFilesystem.WRITABLE},
        {"mounts": (Mount(source="/srv", target="/workspace/srv"),)},
        {"mounts": (Mount(source="/srv", target="/proc"),)},
        {"mounts": (Mount(source="/srv", target="/"),)},
        {"mounts": (Mount(source="/srv", target="/opt/../proc"),)},
        {"mounts": (Mount(source="srv", target="/opt"),)},
        {"task_id": "../x"},
    ],
)
def test_what_cannot_be_enforced_is_refused(changes):
    with pytest.raises(UnsupportedError):
        make_create_body(make_spec(**changes), PLACE)


def test_a_container_made_as_asked_has_no_drift():
    body = make_create_body(make_spec(), PLACE)

    assert list_drift(body, make_found(body)) == ()


@pytest.mark.parametrize(
    ("part", "key", "value"),
    [
        ("HostConfig", "Privileged", True),
        ("HostConfig", "CapAdd", ["SYS_ADMIN"]),
        ("HostConfig", "CapDrop", []),
        ("HostConfig", "Binds", ["/var/run/docker.sock:/s"]),
        ("HostConfig", "PidMode", "host"),
        ("HostConfig", "NetworkMode", "host"),
        ("HostConfig", "ReadonlyRootfs", False),
        ("HostConfig", "SecurityOpt", ["seccomp=unconfined"]),
        ("HostConfig", "PidsLimit", None),
        ("HostConfig", "MemorySwap", -1),
        ("HostConfig", "Devices", [{"PathOnHost": "/dev/kvm"}]),
        ("Config", "User", "0:0"),
        ("Config", "Healthcheck", None),
        ("Config", "Entrypoint", ["/agent"]),
        ("Config", "Env", []),
        ("Config", "Labels", {}),
    ],
)
def test_every_loosened_field_is_seen_as_drift(part, key, value):
    body = make_create_body(make_spec(), PLACE)
    found = make_found(body)
    found[part][key] = value

    assert list_drift(body, found)


def test_a_mount_that_was_not_asked_for_is_drift():
    body = make_create_body(make_spec(), PLACE)
    found = make_found(body)
    found["Mounts"].append({"Destination": "/var/run/docker.sock"})

    assert list_drift(body, found) == ("mount '/var/run/docker.sock' was not asked for",)


def test_the_name_holds_instance_task_attempt_and_a_token():
    name = make_name(make_spec(purpose="verify"), instance_id="i1", token="abc")

    assert name == "forkyard-i1-t1-verify-2-abc"


def list_allowing(profile):
    return [rule for rule in profile["syscalls"] if rule["action"] == "SCMP_ACT_ALLOW"]


@pytest.mark.parametrize(
    "syscall",
    [
        *("io_uring_setup", "io_uring_enter", "userfaultfd", "bpf", "perf_event_open", "keyctl"),
        *("add_key", "request_key", "mount", "umount2", "fsopen", "fsmount", "move_mount"),
        *("open_tree", "mount_setattr", "pivot_root", "chroot", "open_by_handle_at", "unshare"),
        *("setns", "ptrace", "process_vm_readv", "process_vm_writev", "kexec_load", "reboot"),
        *("init_module", "finit_module", "swapon", "sethostname", "settimeofday", "iopl"),
        *("pidfd_getfd", "kcmp", "acct", "quotactl", "syslog", "memfd_secret", "vmsplice"),
        *("setxattr", "lsetxattr", "fsetxattr", "setxattrat", "removexattr", "lremovexattr"),
        *("fremovexattr", "removexattrat", "file_setattr"),
    ],
)
def test_the_seccomp_profile_denies_by_default_and_lists_nothing_dangerous(syscall):
    profile = json.loads(read_seccomp_profile())

    allowed = {name for rule in list_allowing(profile) for name in rule["names"]}
    assert profile["defaultAction"] == "SCMP_ACT_ERRNO"
    assert syscall not in allowed


def test_sockets_are_allowed_by_family_only():
    profile = json.loads(read_seccomp_profile())

    rules = [rule for rule in profile["syscalls"] if "socket" in rule["names"]]
    families = {arg["value"] for rule in rules for arg in rule["args"] if arg["index"] == 0}
    assert families == {1, 2, 10, 16}  # AF_UNIX, AF_INET, AF_INET6, AF_NETLINK (route only)
    assert all(rule["args"] for rule in rules)


def test_setting_attributes_is_answered_as_by_a_file_system_that_has_none():
    profile = json.loads(read_seccomp_profile())

    refused = [rule for rule in profile["syscalls"] if rule.get("errnoRet") == errno.EOPNOTSUPP]
    assert [sorted(rule["names"]) for rule in refused] == [
        sorted(
            f"{kind}xattr{at}"
            for action in ("set", "remove")
            for kind, at in ((action, ""), (f"l{action}", ""), (f"f{action}", ""), (action, "at"))
        )
    ]


@pytest.mark.parametrize(
    ("request_number", "allowed"),
    [
        *((0x5401, True), (0x541B, True), (0x8912, True), (0x80086601, True), (0x40049409, True)),
        *((0x40086602, False), (0x140086602, False), (0x40046602, False), (0x401C5820, False)),
        *((0x40087602, False), (0x41009432, False)),  # a file's version, a file system's label
    ],
    ids=hex,
)
def test_an_ioctl_that_sets_what_no_snapshot_holds_is_not_allowed(request_number, allowed):
    profile = json.loads(read_seccomp_profile())

    rules = [rule for rule in list_allowing(profile) if "ioctl" in rule["names"]]
    masks = [arg for rule in rules for arg in rule["args"]]
    assert all(len(rule["args"]) == 1 for rule in rules)
    assert {(arg["index"], arg["op"]) for arg in masks} == {(1, "SCMP_CMP_MASKED_EQ")}
    assert any(request_number & arg["value"] == arg["valueTwo"] for arg in masks) is allowed
