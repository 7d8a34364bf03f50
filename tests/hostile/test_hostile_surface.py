"""What code inside reaches for: privileges, kernel surface, the host (security.md, cases 1-11)."""

from __future__ import annotations

import errno
import json
import subprocess

import pytest
from hostile_programs import SET_ATTRIBUTES
from sandbox_builders import make_spec, run, run_shell

from sandbox import CommandRefusedError

pytestmark = pytest.mark.engine


def test_usual_programs_still_work_under_the_filter(shared):
    script = (
        "git init -q r && cd r && echo x >a && git add a && "
        "git -c user.name=a -c user.email=a@b commit -qm m && git log --oneline | wc -l && "
        "mkfifo f && python3 -c 'import threading, multiprocessing as m, socket, subprocess\n"
        "with m.Pool(2) as p: print(p.map(abs, [-1]))\n"
        'print(socket.getaddrinfo("127.0.0.1", 80)[0][4])\n'
        's = socket.socket(socket.AF_UNIX); s.bind("s"); print(socket.if_nameindex())\''
    )
    result = run_shell(shared, script, cwd="/tmp")

    assert result.ok, result.stderr.head
    assert result.stdout.head.split(b"\n")[0].strip() == b"1"


def test_what_snapshots_do_not_hold_cannot_be_set(shared):
    # a roll-back could not take it away again: extended attributes, ACLs, inode flags
    result = run(shared, "python3", "-c", SET_ATTRIBUTES, cwd="/tmp")

    assert result.ok, result.stderr.head
    answers = json.loads(result.stdout.head)
    # by number: a libseccomp that does not know a name leaves it to the default or to ENOSYS
    by_number = {answers.pop(name) for name in ("setxattrat", "removexattrat", "file_setattr")}
    assert by_number <= {errno.EPERM, errno.ENOSYS, errno.EOPNOTSUPP}
    flags = {name: answers.pop(name) for name in tuple(answers) if name.startswith("ioctl")}
    assert set(flags.values()) == {errno.EPERM}
    assert set(answers.values()) == {errno.EOPNOTSUPP}


def test_copies_archives_and_clones_work_without_attributes(shared):
    script = (
        "set -e; mkdir attr && cd attr && echo x >a && chmod 640 a && cp -a a b && mkdir d && "
        "cp -a a d && cp -a d e && mv e f && tar cf t.tar d && mkdir out && "
        "tar xpf t.tar -C out && tar --xattrs --acls -xf t.tar -C out;"
        "install -m 600 a i; sed -i s/x/y/ i; "
        "git init -q r; git -C r -c user.name=a -c user.email=a@b commit -qm m --allow-empty; "
        'git clone -q r s; python3 -c \'import shutil; shutil.copytree("d", "g")\'; '
        "cat b d/a f/a out/d/a g/a; stat -c %a b"
    )
    result = run_shell(shared, script, cwd="/tmp")

    assert result.ok, result.stderr.head
    assert result.stdout.head == b"x\nx\nx\nx\nx\n640\n"


def test_a_command_has_no_capability_and_can_gain_none(shared):
    result = run(shared, "grep", "-E", "^(Cap|NoNewPrivs|Seccomp:)", "/proc/self/status")

    found = dict(line.split(":\t") for line in result.stdout.head.decode().splitlines())
    capabilities = {value for name, value in found.items() if name.startswith("Cap")}
    assert capabilities == {"0000000000000000"}
    assert (found["NoNewPrivs"], found["Seccomp"]) == ("1", "2")


def test_a_set_user_id_program_gives_nothing(shared):
    script = (
        "cp /bin/sh ./sh && chmod 4755 ./sh && ./sh -pc 'id -u' && "
        "for one in $(find / -xdev -perm -4000 2>/dev/null | head -1); do ls -l $one; done; "
        "su -c true </dev/null; echo $?"
    )
    result = run_shell(shared, script)

    lines = result.stdout.head.decode().splitlines()
    assert lines[0] == "1000"
    assert lines[-1] != "0"


def test_a_command_gets_three_descriptors_and_no_other(shared):
    result = run(shared, "ls", "-l", "/proc/self/fd")

    links = [line for line in result.stdout.head.decode().splitlines() if "->" in line]
    others = [line for line in links if "/proc/" not in line.split(" -> ")[1]]
    assert len(others) == 3


@pytest.mark.parametrize("cwd", ["/proc/self/fd/7", "/workspace/../proc/1", "proc", "/etc"])
def test_a_chosen_working_directory_is_refused(shared, cwd):
    with pytest.raises(CommandRefusedError):
        run(shared, "pwd", cwd=cwd)


def test_a_link_as_working_directory_leads_nowhere_outside(shared):
    run(shared, "ln", "-sfn", "/proc/self/fd/7", "/workspace/link")

    result = run(shared, "cat", "../../../etc/hostname", cwd="/workspace/link")

    assert not result.ok


def test_the_root_file_system_is_read_only(shared):
    script = (
        "for one in /bin/sh /etc/passwd /usr/x /x /forkyard/base.git/x /sbin/docker-init; do "
        "echo x 2>/dev/null >$one && echo wrote $one; done; echo done"
    )
    result = run_shell(shared, script)

    assert result.stdout.head == b"done\n"


def test_proc_and_sys_are_masked(shared):
    script = (
        "echo b >/proc/sysrq-trigger; echo x >/proc/sys/kernel/core_pattern; "
        "head -c1 /proc/kcore; ls /proc/acpi /sys/firmware | wc -w; "
        "find /sys/fs/cgroup -name release_agent | wc -l"
    )
    result = run_shell(shared, script)

    assert b"denied" in result.stderr.head or b"Read-only" in result.stderr.head
    assert result.stdout.head.split()[-1] == b"0"


def test_there_is_no_network_but_loopback(shared):
    script = (
        "import socket\n"
        "print([name for _, name in socket.if_nameindex()])\n"
        "for family, address in ((2, '1.1.1.1'), (2, '172.17.0.1'), (10, '2606:4700::1111')):\n"
        "    for kind in (1, 2):\n"
        "        try:\n"
        "            s = socket.socket(family, kind); s.settimeout(2); s.connect((address, 53))\n"
        "            print('REACHED', address)\n"
        "        except OSError as error:\n"
        "            pass\n"
        "try:\n    print('RESOLVED', socket.gethostbyname('example.org'))\n"
        "except OSError:\n    pass\n"
        "try:\n    socket.socket(2, socket.SOCK_RAW, 1); print('RAW')\n"
        "except OSError:\n    pass\n"
    )
    result = run(shared, "python3", "-c", script)

    assert result.stdout.head == b"['lo']\n"


def test_no_socket_or_file_of_the_host_is_there(shared):
    script = (
        "find / -xdev -type s 2>/dev/null; ls /var/run/docker.sock /run/docker.sock 2>/dev/null; "
        "cat /proc/net/unix | tail -n +2; ls /forkyard"
    )
    result = run_shell(shared, script)

    assert result.stdout.head == b"base.git\n"


def test_the_environment_holds_nothing_of_the_runner(shared, monkeypatch):
    monkeypatch.setenv("CANARY_TOKEN", "sesame")

    result = run_shell(shared, "env; cat /proc/*/environ")

    assert b"sesame" not in result.stdout.head


def test_a_crash_leaves_no_core_dump(shared):
    script = "ulimit -c unlimited; cd /tmp; sh -c 'kill -SEGV $$'; ulimit -c; ls /tmp | grep core"
    result = run_shell(shared, script)

    assert result.stdout.head == b"0\n"


def test_the_clock_cannot_be_set(shared):
    result = run(shared, "date", "-s", "2001-01-01")

    assert not result.ok


def test_init_cannot_be_killed_or_stopped(shared):
    result = run_shell(shared, "kill -9 1; kill -STOP 1; sleep .1; echo alive")

    assert result.stdout.head == b"alive\n"
    assert run(shared, "true").ok


def test_killing_everything_in_reach_spares_the_residents(host, image):
    with host.open_sandbox(make_spec(image)) as sandbox:
        killed = run_shell(sandbox, "sleep 60 & kill -9 -1; kill -TERM 1; echo alive")

        assert killed.stdout.head == b"alive\n"
        assert run(sandbox, "true").ok


def test_the_residents_memory_cannot_be_reached(shared):
    # code written into a process that outlives the call would run on between two calls
    script = (
        "import os\n"
        "for one in filter(str.isdigit, os.listdir('/proc')):\n"
        "    if int(one) == os.getpid(): continue\n"
        "    for name in ('mem', 'maps', 'environ', 'fd/0', 'cwd'):\n"
        "        try:\n"
        "            os.close(os.open(f'/proc/{one}/{name}', os.O_RDWR if name == 'mem' else 0))\n"
        "        except OSError: continue\n"
        "        print('REACHED', one, name)\n"
    )
    result = run(shared, "python3", "-c", script)

    assert result.ok
    assert result.stdout.head == b""


def test_another_tasks_processes_and_files_are_not_seen(host, image, shared):
    with host.open_sandbox(make_spec(image)) as other:
        run_shell(other, "echo secret >/tmp/secret; echo secret >/dev/shm/secret")

        seen = run_shell(shared, "ls /tmp/secret /dev/shm/secret; ls /proc | grep -c '^[0-9]'")

    assert seen.stdout.head.split()[-1] in {b"4", b"5", b"6"}  # init, keeper, and this command
    assert b"secret" not in seen.stdout.head


def test_a_live_container_equals_its_specification(engine, shared, host):
    found = engine.inspect(shared.sandbox_id)

    assert found["HostConfig"]["Privileged"] is False
    assert found["HostConfig"]["CapDrop"] == ["ALL"]
    assert found["HostConfig"]["Binds"] is None
    assert found["HostConfig"]["NetworkMode"] == "none"
    assert found["HostConfig"]["Memory"] == found["HostConfig"]["MemorySwap"]
    assert {mount["Destination"]: mount["RW"] for mount in found["Mounts"]} == {
        "/workspace": True,
        "/home/agent": True,
        "/tmp": True,
        "/forkyard/base.git": False,
    }
    assert "/proc/kcore" in found["HostConfig"]["MaskedPaths"]


def test_the_volume_ignores_set_user_id_and_devices(shared, engine):
    found = engine.inspect(shared.sandbox_id)
    source = next(m["Source"] for m in found["Mounts"] if m["Destination"] == "/workspace")

    options = subprocess.run(
        ["findmnt", "-no", "OPTIONS", "--target", source], capture_output=True, check=True
    ).stdout.decode()

    assert {"nosuid", "nodev"} <= set(options.strip().split(","))
