"""Attempts to get out, up or beyond: nothing here uses anything up."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import resource
import signal
import socket
import stat
import subprocess
from collections.abc import Iterator

from sandbox.probes.inside.report import attempt, list_mounts, list_others, say

WAIT_SECONDS = 1.0
PUBLIC_V4 = "1.1.1.1"  # any address outside: only the way there matters
PUBLIC_V6 = "2606:4700::1111"
METADATA = "169.254.169.254"  # where clouds answer with credentials
ENGINE_GATEWAY = "172.17.0.1"  # the host, on an engine's default network
ENGINE_PORTS = (2375, 2376)
CONTROL_SOCKETS = (
    "/var/run/docker.sock",
    "/run/docker.sock",
    "/run/containerd/containerd.sock",
    "/run/podman/podman.sock",
    "/run/crio/crio.sock",
    "/run/buildkit/buildkitd.sock",
    "/run/dbus/system_bus_socket",
    "/run/systemd/private",
)
CLONE_NEWUSER = 0x10000000  # linux/sched.h
FAMILIES = {"AF_ALG": 38, "AF_VSOCK": 40, "AF_PACKET": 17}  # linux/socket.h
# Arguments that would fail otherwise than by being refused: then the call was not filtered.
SYSCALLS: dict[str, dict[str, int]] = {
    "x86_64": {  # linux/asm/unistd_64.h
        "io_uring_setup": 425,
        "bpf": 321,
        "perf_event_open": 298,
        "userfaultfd": 323,
        "keyctl": 250,
        "add_key": 248,
        "fsopen": 430,
        "mount": 165,
        "open_by_handle_at": 304,
        "setns": 308,
        "ptrace": 101,
    },
    "aarch64": {  # linux/asm-generic/unistd.h
        "io_uring_setup": 425,
        "bpf": 280,
        "perf_event_open": 241,
        "userfaultfd": 282,
        "keyctl": 219,
        "add_key": 217,
        "fsopen": 430,
        "mount": 40,
        "open_by_handle_at": 265,
        "setns": 268,
        "ptrace": 117,
    },
}
UNSHARE = {"x86_64": 272, "aarch64": 97}


def root() -> None:
    """Write where only the image is."""
    for place in ("/", "/etc", "/usr/bin", "/forkyard/base.git"):
        path = os.path.join(place, "forkyard-probe")
        attempt(f"make a folder in {place}", lambda path=path: os.mkdir(path))  # type: ignore[misc]
    say("the root is mounted", next(flags for point, flags in list_mounts() if point == "/"))


def kernel() -> None:
    """Change settings of the kernel, read its memory, make a device."""
    for path in (
        "/proc/sys/kernel/core_pattern",
        "/proc/sys/kernel/modprobe",
        "/proc/sysrq-trigger",
        "/sys/kernel/uevent_helper",
    ):
        attempt(f"open {path} for writing", lambda path=path: os.open(path, os.O_WRONLY))  # type: ignore[misc]
    for path in ("/proc/kcore", "/dev/mem"):
        attempt(f"read {path}", lambda path=path: read_bit(path))  # type: ignore[misc]
    attempt("make a control group", lambda: os.mkdir("/sys/fs/cgroup/forkyard-probe"))
    device = stat.S_IFBLK | 0o600
    attempt("make a disk device", lambda: os.mknod("/tmp/forkyard-disk", device, os.makedev(8, 0)))


def names() -> None:
    """Resolve names, and look for a way to those who resolve them."""
    for name in ("example.com", "host.docker.internal", "metadata.google.internal"):
        attempt(f"resolve {name}", lambda name=name: bool(socket.getaddrinfo(name, 443)))  # type: ignore[misc]
    with open("/etc/resolv.conf", encoding="utf-8", errors="replace") as file:
        lines = [line.split() for line in file]
    named = {line[1] for line in lines if line[:1] == ["nameserver"] and len(line) > 1}
    for address in sorted({PUBLIC_V4, *named}):
        if not address.startswith(("127.", "::1")):
            attempt(f"a way to {address}:53", lambda address=address: reach_datagram(address, 53))  # type: ignore[misc]


def connect() -> None:
    """Connect to hosts outside."""
    say("interfaces beside loopback", " ".join(list_interfaces()) or "none")
    places = [(PUBLIC_V4, 443), (PUBLIC_V6, 443), (METADATA, 80), (ENGINE_GATEWAY, 2375)]
    for address, port in places:
        attempt(f"connect to {address}:{port}", lambda at=(address, port): reach_stream(*at))  # type: ignore[misc]
    attempt(f"a way to {PUBLIC_V4}:443 (UDP)", lambda: reach_datagram(PUBLIC_V4, 443))


def sockets() -> None:
    """Look for sockets that something outside listens on."""
    for path in CONTROL_SOCKETS:
        attempt(f"connect to {path}", lambda path=path: reach_unix(path))  # type: ignore[misc]
    for port in ENGINE_PORTS:
        attempt(f"connect to 127.0.0.1:{port}", lambda port=port: reach_stream("127.0.0.1", port))  # type: ignore[misc]
    say("sockets among the files", " ".join(list_sockets()) or "none")
    with open("/proc/net/unix", encoding="utf-8", errors="replace") as file:
        found = [line.split()[-1] for line in file if " @" in line]
    say("abstract sockets", " ".join(found) or "none")
    say("open descriptors beside the usual three", " ".join(list_descriptors()) or "none")


def privileges() -> None:
    """Gain a capability or another user."""
    with open("/proc/self/status", encoding="utf-8") as file:
        status = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
    for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        say(name, "none" if int(status[name], 16) == 0 else status[name])
    say("NoNewPrivs", "held" if status["NoNewPrivs"] == "1" else "absent")
    say("system call filter", "held" if status["Seccomp"] == "2" else "absent")
    say("user", "root" if os.geteuid() == 0 else "ordinary")
    attempt("become user 0", lambda: os.setuid(0))
    attempt("become group 0", lambda: os.setgid(0))
    attempt("change the root folder", lambda: os.chroot("/tmp"))
    for path in list_privileged_files():
        attempt(f"run {path}", lambda path=path: run_privileged(path))  # type: ignore[misc]


def surface() -> None:
    """Call what the filter must refuse."""
    machine = platform.machine()
    libc = ctypes.CDLL(None, use_errno=True)
    for name, number in SYSCALLS.get(machine, {}).items():
        attempt(name, lambda number=number: call_kernel(libc, number, 0, 0, 0, 0))  # type: ignore[misc]
    for name, family in FAMILIES.items():
        attempt(f"socket {name}", lambda family=family: open_socket(family))  # type: ignore[misc]
    if machine in UNSHARE:
        attempt("unshare NEWUSER", lambda: call_kernel(libc, UNSHARE[machine], CLONE_NEWUSER))
    else:
        say("system calls of this machine", "unknown")


def processes() -> None:
    """See, signal or read processes that are not one's own."""
    say("processes of others", " ".join(list_others()) or "none")
    attempt("signal init", lambda: os.kill(1, 0))
    for name in ("environ", "mem"):
        attempt(f"read init's {name}", lambda name=name: read_bit(f"/proc/1/{name}"))  # type: ignore[misc]
    attempt("look through init's root", lambda: os.listdir("/proc/1/root/"))
    with open("/proc/sysvipc/shm", encoding="utf-8") as file:
        say("shared memory of others", max(0, len(file.readlines()) - 1) or "none")


def core() -> None:
    """Leave a core dump."""
    with open("/proc/sys/kernel/core_pattern", encoding="utf-8") as file:
        say("crashes go to", "a program" if file.read().startswith("|") else "a file")
    limits = resource.getrlimit(resource.RLIMIT_CORE)
    say("limit on core dumps", "none allowed" if limits == (0, 0) else limits)
    attempt("raise that limit", raise_core_limit)
    child = os.fork()
    if child == 0:
        os.chdir("/workspace")
        os.kill(os.getpid(), signal.SIGSEGV)
    _pid, ended = os.waitpid(child, 0)
    say("crash", "a core dump" if os.WCOREDUMP(ended) else "no core dump")


def raise_core_limit() -> None:
    """Raise the hard limit on core dumps; a refusal is told as EPERM, as the kernel does."""
    try:
        resource.setrlimit(resource.RLIMIT_CORE, (4096, 4096))
    except ValueError as error:  # what Python makes of it
        raise PermissionError(errno.EPERM, str(error)) from error


def list_interfaces() -> list[str]:
    """Return the interfaces that are up, without loopback."""
    found = []
    for _index, name in socket.if_nameindex():
        with open(f"/sys/class/net/{name}/flags", encoding="utf-8") as file:
            flags = int(file.read(), 16)
        if flags & 1 and not flags & 8:  # linux/if.h: IFF_UP, IFF_LOOPBACK
            found.append(name)
    return found


def list_entries(top: str) -> Iterator[os.DirEntry[str]]:
    """Yield everything below a folder, without the kernel's own file systems."""
    waiting = [top]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    yield entry
                    is_kernel = entry.path in ("/proc", "/sys")
                    if entry.is_dir(follow_symlinks=False) and not is_kernel:
                        waiting.append(entry.path)
        except OSError:
            continue


def list_sockets() -> list[str]:
    """Return the unix sockets among all files."""
    # a folder tells the kind of what lies below a mount, not of what is mounted
    places = {point for point, _flags in list_mounts() if os.path.exists(point)}
    for entry in list_entries("/"):
        plain = entry.is_file(follow_symlinks=False) or entry.is_dir(follow_symlinks=False)
        if not plain and not entry.is_symlink():
            places.add(entry.path)
    return sorted(place for place in places if stat.S_ISSOCK(os.stat(place).st_mode))


def list_privileged_files() -> list[str]:
    """Return up to five programs that would run as another user."""
    found = []
    for entry in list_entries("/usr"):
        if entry.is_file(follow_symlinks=False):
            facts = entry.stat(follow_symlinks=False)
            if facts.st_mode & stat.S_ISUID and facts.st_uid != os.getuid():
                found.append(entry.path)
    return sorted(found)[:5]


def run_privileged(path: str) -> str:
    """Run a program and return whose it is once it runs."""
    with subprocess.Popen(
        [path], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as program:
        with open(f"/proc/{program.pid}/status", encoding="utf-8") as file:
            users = next(line.split() for line in file if line.startswith("Uid:"))
        program.kill()
    return "own user" if users[2] == str(os.getuid()) else f"runs as user {users[2]}"


def list_descriptors() -> list[str]:
    """Return what open descriptors beyond standard error lead to."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{name}")
        except OSError:
            continue  # the listing's own
        if int(name) > 2:
            found.append(target)
    return found


def read_bit(path: str) -> str:
    """Return whether a file has anything to read."""
    with open(path, "rb", buffering=0) as file:
        return "read" if file.read(1) else "empty"


def reach_stream(address: str, port: int) -> str:
    """Connect to an address."""
    socket.create_connection((address, port), timeout=WAIT_SECONDS).close()
    return "connected"


def reach_datagram(address: str, port: int) -> str:
    """Find out whether there is a way to an address; nothing is sent."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as one:
        one.connect((address, port))
    return "there is one"


def reach_unix(path: str) -> str:
    """Connect to a socket among the files."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as one:
        one.settimeout(WAIT_SECONDS)
        one.connect(path)
    return "connected"


def open_socket(family: int) -> str:
    """Make a socket of a family."""
    kind = socket.SOCK_SEQPACKET if family == FAMILIES["AF_ALG"] else socket.SOCK_STREAM
    socket.socket(family, kind, 0).close()
    return "made"


def call_kernel(libc: ctypes.CDLL, number: int, *arguments: int) -> str:
    """Make a system call."""
    ctypes.set_errno(0)
    result = libc.syscall(ctypes.c_long(number), *map(ctypes.c_ulong, arguments))
    if result == -1:
        raise OSError(ctypes.get_errno(), "")
    return f"allowed: {result}"


TRIES = (root, kernel, names, connect, sockets, privileges, surface, processes, core)
"""What can be asked for by name."""
