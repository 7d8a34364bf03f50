"""Attempts to use more than allowed; each stops by itself before the host is harmed."""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import subprocess
import sys
import time

from sandbox.probes.inside.report import fail, list_mounts, list_others, say

MIB = 1024 * 1024
BEAT = "/workspace/forkyard-beat"
FILL = "/workspace/forkyard-fill"
MANY = "/workspace/forkyard-many"
MARK = "forkyard-beat"


def outlive() -> None:
    """Leave a process behind: forked twice, in a session of its own, deaf to signals."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            survive()
        os._exit(0)
    os.wait()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    time.sleep(600)


def survive() -> None:
    """Write down again and again that one is alive."""
    for number in range(1, signal.NSIG):
        try:
            signal.signal(number, signal.SIG_IGN)
        except (OSError, ValueError):
            continue
    name = ctypes.create_string_buffer(MARK.encode()[:15])
    ctypes.CDLL(None).prctl(15, name)  # linux/prctl.h: PR_SET_NAME
    while True:
        with open(BEAT, "w", encoding="utf-8") as file:
            file.write(str(time.monotonic_ns()))
        time.sleep(0.02)


def survivors() -> None:
    """Look for what `outlive` left."""
    say("it had lived", "yes" if os.path.exists(BEAT) else "no")
    before = os.stat(BEAT).st_mtime_ns if os.path.exists(BEAT) else 0
    time.sleep(0.3)
    after = os.stat(BEAT).st_mtime_ns if os.path.exists(BEAT) else 0
    say("it still writes", "yes" if before != after else "no")
    say("processes left", " ".join(list_others()) or "none")


def memory(limit_mib: str) -> None:
    """Use more memory than allowed; stop at four times that much."""
    held = [b"x" * (8 * MIB) for _ in range(4 * int(limit_mib) // 8)]
    say("got", f"{8 * len(held)} MiB")


def pids(limit: str) -> None:
    """Start more processes than allowed; stop at twice as many."""
    for count in range(2 * int(limit)):
        try:
            child = os.fork()
        except OSError as error:
            say("refused", f"{errno.errorcode[error.errno or 0]} after {count}")
            fail()
        if child == 0:
            time.sleep(600)
    say("got", f"{2 * int(limit)} processes")


def files(limit: str) -> None:
    """Open more files than allowed; stop at twice as many."""
    for count in range(2 * int(limit)):
        try:
            os.open("/dev/null", os.O_RDONLY)
        except OSError as error:
            say("refused", f"{errno.errorcode[error.errno or 0]} after {count}")
            return
    say("got", f"{2 * int(limit)} files")


def disk(limit_mib: str) -> None:
    """Write more than allowed; stop at twice as much."""
    written = 0
    with open(FILL, "wb", buffering=0) as file:
        for size in (MIB, 64 * 1024, 4096):  # down to the last block: then it is really full
            try:
                while written < 2 * int(limit_mib) * MIB:
                    written += file.write(b"x" * size)
                    if written % (16 * MIB) == 0:
                        os.fsync(file.fileno())  # where room is only given when written back
            except OSError as error:
                refused = errno.errorcode[error.errno or 0]
                continue
            say("got", f"{written // MIB} MiB")
            return
    say("refused", f"{refused} after {written // MIB}")
    fail()


def inodes(limit: str) -> None:
    """Make more files than allowed; stop at three times as many."""
    os.mkdir(MANY)
    for count in range(3 * int(limit)):
        try:
            os.close(os.open(f"{MANY}/{count}", os.O_CREAT | os.O_WRONLY, 0o600))
        except OSError as error:
            say("refused", f"{errno.errorcode[error.errno or 0]} after {count}")
            fail()
    say("got", f"{3 * int(limit)} files")


def clean(*mounts: str) -> None:
    """Remove what `disk` and `inodes` left, and say how much room there is beside the volume."""
    subprocess.run(["rm", "-rf", FILL, MANY], check=True)
    own = os.stat("/workspace").st_dev
    rooms = {}
    for point, _flags in list_mounts():
        if point in mounts or not os.path.isdir(point) or not os.access(point, os.W_OK):
            continue
        place = os.stat(point)
        if place.st_dev != own:
            room = os.statvfs(point)
            rooms[place.st_dev] = room.f_blocks * room.f_frsize // MIB
    say("MiB beside the volume", sum(rooms.values()))


def cpu(seconds: str) -> None:
    """Use as many processors as there are, up to four: a probe gets one at most."""
    until = time.monotonic() + float(seconds)
    for _ in range(4):
        if os.fork() == 0:
            while time.monotonic() < until:
                pass
            os._exit(0)
    while time.monotonic() < until:
        time.sleep(0.01)
    say("got", "done")


def output(mib: str) -> None:
    """Print more than is kept."""
    for _ in range(int(mib)):
        sys.stdout.write("x" * MIB)


TRIES = (outlive, survivors, memory, pids, files, disk, inodes, clean, cpu, output)
"""What can be asked for by name."""
