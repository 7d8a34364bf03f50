"""What code inside uses up, and what it leaves running (security.md, cases 12-21; faults D)."""

from __future__ import annotations

import hashlib
import os
import threading
import time
from pathlib import Path

import pytest
from sandbox_builders import SMALL, make_spec, run, run_shell

from policies import Limits
from sandbox import Command, CommandRefusedError, Ending

pytestmark = pytest.mark.engine

FORK_BOMB = "import os\nwhile True: os.fork()"
ESCAPE = """
import os, signal, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for number in range(1, 65):
            try: signal.signal(number, signal.SIG_IGN)
            except (OSError, ValueError): pass
        os.chdir("/")
        %s
        time.sleep(1000)
    os._exit(0)
os.wait()
print("main is done", flush=True)
"""


def processes_of(sandbox) -> int:
    """Count a container's processes on the host."""
    procs = Path(f"/sys/fs/cgroup/pids/docker/{sandbox.sandbox_id}/cgroup.procs")
    if not procs.exists():  # control groups version 2
        found = list(Path("/sys/fs/cgroup").rglob(f"*{sandbox.sandbox_id}*/cgroup.procs"))
        procs = found[0]
    return len(procs.read_text().split())


@pytest.mark.parametrize("closes", ["pass", "os.closerange(0, 64)"], ids=["open", "closed"])
def test_a_survivor_dies_with_its_command_whatever_it_does(shared, closes):
    before = time.monotonic()

    result = run(shared, "python3", "-c", ESCAPE % closes)

    assert result.ok
    assert result.stdout.head == b"main is done\n"
    assert result.killed_processes == 1
    assert processes_of(shared) == 2
    assert time.monotonic() - before < 1.8  # the engine alone would hold the output for 2 s


def test_a_command_that_ignores_every_signal_ends_at_its_limit(shared):
    result = run_shell(
        shared, "trap '' TERM INT HUP; setsid sleep 100 & sleep 100", timeout_seconds=0.7
    )

    assert (result.ending, result.exit_code) == (Ending.TIMED_OUT, None)
    assert result.killed_processes >= 3
    assert 0.6 < result.wall_seconds < 3
    assert processes_of(shared) == 2


def test_a_stopped_process_is_killed_as_well(shared):
    result = run_shell(shared, "sleep 100 & kill -STOP $!; echo stopped")

    assert result.ok
    assert processes_of(shared) == 2


def test_a_command_that_closes_its_output_is_still_waited_for(shared):
    result = run_shell(shared, "exec >&- 2>&-; sleep .6; exit 7")

    assert (result.ending, result.exit_code) == (Ending.EXITED, 7)
    assert result.wall_seconds > 0.5


def test_children_made_beside_the_main_process_do_not_prolong_it(shared):
    # CLONE_PARENT: the child's parent is the engine's process, as the main process's is
    script = (
        "import ctypes, os, time\n"
        "libc = ctypes.CDLL(None)\n"
        "if libc.syscall(56, 0x8000 | 17, 0, 0, 0, 0) == 0:\n"
        "    time.sleep(1000)\n"
        "time.sleep(.5)\n"
        "os._exit(3)\n"
    )
    result = run(shared, "python3", "-c", script, timeout_seconds=10)

    assert (result.ending, result.exit_code) == (Ending.EXITED, 3)
    assert processes_of(shared) == 2


def test_a_fork_bomb_hits_its_limit_and_leaves_nothing(shared):
    result = run(shared, "python3", "-c", FORK_BOMB, timeout_seconds=15)

    assert result.ending is Ending.RESOURCE_LIMIT
    assert "limit on processes" in result.detail
    assert processes_of(shared) == 2
    assert run_shell(shared, "for i in 1 2 3; do sleep 0 & done; wait; echo forks").ok


def test_a_fork_bomb_that_never_gives_up_ends_at_the_time_limit(shared):
    script = "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass"
    result = run(shared, "python3", "-c", script, timeout_seconds=1.5)

    assert result.ending is Ending.TIMED_OUT
    assert "limit on processes" in result.detail
    assert result.wall_seconds < 6
    assert processes_of(shared) == 2


def test_memory_running_out_is_told_as_such(shared):
    result = run(shared, "python3", "-c", "b = bytearray(400 << 20)")

    assert (result.ending, result.exit_code) == (Ending.OUT_OF_MEMORY, None)
    assert "memory" in result.detail


def test_a_child_that_was_killed_for_memory_is_told_though_the_parent_goes_on(shared):
    result = run_shell(shared, "head -c 600m /dev/zero | tail -c 500m >/dev/null; true")

    assert result.ending is Ending.OUT_OF_MEMORY


def test_memory_files_and_shared_memory_count_as_memory(shared):
    script = "import os\nfd = os.memfd_create('x')\nwhile True: os.write(fd, bytes(1 << 20))\n"
    assert run(shared, "python3", "-c", script).ending is Ending.OUT_OF_MEMORY
    shm = run_shell(
        shared, "head -c 40m /dev/zero >/dev/shm/x; stat -c %s /dev/shm/x; rm /dev/shm/x"
    )
    assert int(shm.stdout.head) <= 16 * 1024 * 1024


def test_a_signal_of_its_own_is_neither_memory_nor_our_stop(shared):
    result = run_shell(shared, "kill -9 $$")

    assert (result.ending, result.exit_code) == (Ending.KILLED, None)
    assert "SIGKILL" in result.detail


def test_a_stop_signal_ends_a_command_at_once(shared):
    stop = threading.Event()
    timer = threading.Timer(0.4, stop.set)
    timer.start()

    result = shared.run(Command(argv=("sleep", "100")), stop=stop)

    timer.join()
    assert (result.ending, result.exit_code) == (Ending.STOPPED, None)
    assert result.wall_seconds < 2


def test_a_full_volume_is_told_and_the_host_keeps_its_room(host, image):
    with host.open_sandbox(make_spec(image)) as sandbox:
        before = os.statvfs("/").f_bavail

        bytes_full = run_shell(sandbox, "head -c 200m /dev/zero >/workspace/big")
        run_shell(sandbox, "rm /workspace/big")
        inodes_full = run_shell(
            sandbox, "cd /tmp && python3 -c 'for i in range(9000): open(str(i), \"x\").close()'"
        )
        sparse = run_shell(sandbox, "truncate -s 8E /workspace/sparse")

        assert (bytes_full.ending, inodes_full.ending) == (Ending.DISK_FULL, Ending.DISK_FULL)
        assert not sparse.ok
        used = (before - os.statvfs("/").f_bavail) * os.statvfs("/").f_frsize
        assert used < 3 * SMALL.disk_mib * 1024 * 1024


def test_files_that_may_be_open_are_limited(shared):
    script = "import os\nfor i in range(400): os.open('/dev/null', 0)"
    result = run(shared, "python3", "-c", script)

    assert b"Too many open files" in result.stderr.head


@pytest.mark.parametrize(
    "changes",
    [
        {"argv": ("echo", "x" * (1 << 26))},
        {"argv": ("echo", *["x"] * 100_000)},
        {"argv": ("true",), "environment": (("A", "\0"),)},
        {"argv": ("true",), "environment": (("LD_PRELOAD", "/workspace/x.so"),)},
        {"argv": ("true",), "environment": (("BASH_ENV", "/workspace/x"),)},
    ],
    ids=["long argument", "many arguments", "NUL", "LD_PRELOAD", "BASH_ENV"],
)
def test_a_malformed_command_is_refused_before_anything_starts(shared, changes):
    argv = changes.pop("argv")

    with pytest.raises(CommandRefusedError):
        run(shared, *argv, **changes)


def test_output_is_bytes_in_two_streams_however_it_is_cut(shared):
    script = r"printf '\303'; sleep .2; printf '\251'; printf '\377\0' >&2"
    result = run_shell(shared, script)

    assert (result.stdout.head, result.stderr.head) == (b"\xc3\xa9", b"\xff\0")


def test_a_large_input_does_not_block_whether_it_is_read_or_not(shared):
    data = os.urandom(1 << 20) * 5

    read = run(shared, "cat", stdin=data)
    ignored = run(shared, "true", stdin=data)
    half = run(shared, "head", "-c", "3", stdin=data)

    assert read.stdout.sha256 == hashlib.sha256(data).hexdigest()
    assert ignored.ok
    assert half.stdout.head == data[:3]


@pytest.mark.slow
def test_two_gigabytes_of_output_keep_the_runner_small(shared):
    cap = 1 << 20
    before = memory_of_this_process()

    result = run(
        shared,
        *("head", "-c", "2000000000", "/dev/zero"),
        output_bytes=cap,
        timeout_seconds=120,
    )

    assert result.ok
    assert result.stdout.total_bytes == 2_000_000_000
    assert len(result.stdout.head) + len(result.stdout.tail) == cap
    assert memory_of_this_process() - before < 20 * 1024 * 1024


def memory_of_this_process() -> int:
    fields = Path("/proc/self/statm").read_text().split()
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE")


def test_many_commands_leave_no_descriptor_behind(shared):
    run(shared, "true")
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - counts, needs no paths

    for _ in range(15):
        run_shell(shared, "true", stdin=b"x")

    assert len(os.listdir("/proc/self/fd")) <= before + 1  # noqa: PTH208


@pytest.mark.slow
def test_a_busy_task_does_not_keep_another_from_its_limits(host, image, shared):
    spin = "import os\nfor i in range(8):\n    if os.fork() == 0:\n        while True: pass\n"
    spec = make_spec(
        image, limits=Limits(memory_mib=64, cpu_thousandths=4000, pids=64, disk_mib=8)
    )
    with host.open_sandbox(spec) as busy:
        worker = threading.Thread(
            target=run,
            args=(busy, "python3", "-c", f"{spin}while True: pass"),
            kwargs={"timeout_seconds": 4},
        )
        worker.start()

        result = run(shared, "sleep", "100", timeout_seconds=1)

        worker.join()
    assert result.ending is Ending.TIMED_OUT
    assert result.wall_seconds < 3


def test_what_a_command_leaves_with_the_kernel_does_not_use_up_the_next_ones_memory(host, image):
    # System V segments and queues outlive their maker, and count as the container's memory
    script = (
        "import ctypes\n"
        "libc = ctypes.CDLL(None)\n"
        "libc.shmat.restype = ctypes.c_void_p\n"
        "for i in range(10):\n"
        "    place = libc.shmat(libc.shmget(0, 8 << 20, 0o1600), None, 0)\n"
        "    ctypes.memset(place, 1, 8 << 20)\n"
        "text = ctypes.create_string_buffer(b'\\1' + bytes(8200))\n"
        "queues = semaphores = 0\n"
        "while (queue := libc.msgget(0, 0o1600)) != -1:\n"
        "    queues += 1\n"
        "    libc.msgsnd(queue, text, 8192, 2048)\n"
        "while libc.semget(0, 100, 0o1600) != -1:\n"
        "    semaphores += 1\n"
        "print(queues, semaphores)\n"
    )
    with host.open_sandbox(make_spec(image)) as sandbox:
        left = run(sandbox, "python3", "-c", script)
        after = run(sandbox, "python3", "-c", "b = bytearray(100 << 20)")

    assert left.ok, left.stderr.head
    queues, semaphores = map(int, left.stdout.head.split())
    assert queues <= 64
    assert semaphores <= 128
    assert after.ending is Ending.EXITED
