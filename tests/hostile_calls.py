"""What the hostile tasks of the batch do, by labels that begin with the case's number.

The numbers are those of tests/hostile/CASES.md. Everything here runs inside of a container.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from run_builders import call, shell

SYSCALLS: Mapping[str, Any] = json.loads(
    (Path(__file__).parent / "hostile/syscalls.json").read_text()
)
"""Golden: system calls with their numbers on x86-64 and what the filter answers."""

SIBLING_PORT = 47001
SIBLING_SOCKET = "forkyard-sibling"
SIBLING_CALLS = 24

SWEEP = """
import ctypes, errno, json, mmap, os, signal
libc = ctypes.CDLL(None, use_errno=True)
def native(number, *arguments):
    ctypes.set_errno(0)
    result = libc.syscall(ctypes.c_long(number), *map(ctypes.c_ulong, arguments))
    return ctypes.get_errno() if result == -1 else 0
def i386(number, *arguments):
    code = mmap.mmap(-1, 4096, prot=7)
    code.write(b"\\xb8" + number.to_bytes(4, "little") + b"\\xcd\\x80\\xc3")
    run = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))
    return max(-run(), 0)
def attempt(way, call):
    child = os.fork()
    if child == 0:
        os._exit(way(*call))
    status = os.waitpid(child, 0)[1]
    if os.WIFSIGNALED(status):
        return signal.Signals(os.WTERMSIG(status)).name
    code = os.WEXITSTATUS(status)
    return errno.errorcode[code] if code else "ALLOWED"
print(json.dumps({
    name: attempt(i386 if name.startswith("i386") else native, call)
    for name, call in CALLS.items()
}))
"""

PORTS = """
import json, os, socket, stat
reached = []
for family, address in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
    for port in range(1, 65536):
        with socket.socket(family) as one:
            # a port that is free may be given to the caller, who then meets himself
            if one.connect_ex((address, port)) == 0 and one.getsockname() != one.getpeername():
                reached.append([address, port])
            elif family == socket.AF_INET6 and port > 2000:
                break
found = [line.split()[7] for line in open("/proc/net/unix").readlines()[1:] if line.count(" ") > 6]
for top, _, names in os.walk("/"):
    if top.startswith(("/proc", "/sys")):
        continue
    for name in names:
        try:
            if stat.S_ISSOCK(os.lstat(os.path.join(top, name)).st_mode):
                found.append(os.path.join(top, name))
        except OSError:
            pass
for name in ("/var/run/docker.sock", "/run/docker.sock", "/run/containerd/containerd.sock",
             "\\0forkyard-sibling", "\\0/containerd-shim/x.sock"):
    with socket.socket(socket.AF_UNIX) as one:
        if one.connect_ex(name) == 0:
            found.append(name)
print(json.dumps({"ports": reached, "sockets": found}))
"""

ROUTES = """
import json, socket
reached = []
targets = [(socket.AF_INET, one) for one in ("1.1.1.1", "172.17.0.1", "169.254.169.254")]
targets += [(socket.AF_INET6, one) for one in ("2606:4700::1111", "fd00:ec2::254")]
for family, address in targets:
    for kind, port in ((1, 80), (1, 443), (2, 53), (2, 443)):
        try:
            with socket.socket(family, kind) as one:
                one.settimeout(1)
                one.connect((address, port))
                one.send(b"x")
            reached.append([address, kind, port])
        except OSError:
            pass
for kind, protocol in ((socket.SOCK_RAW, 1), (socket.SOCK_DGRAM, 1)):
    try:
        with socket.socket(socket.AF_INET, kind, protocol) as one:
            one.sendto(b"\\x08\\0\\0\\0\\0\\0\\0\\0", ("1.1.1.1", 0))
        reached.append(["icmp", kind, 0])
    except OSError:
        pass
try:
    reached.append(["name", socket.gethostbyname("example.org"), 0])
except OSError:
    pass
names = [name for _, name in socket.if_nameindex()]
print(json.dumps({"reached": reached, "interfaces": names}))
"""

MOUNTS = """
import ctypes, errno, json, os
libc = ctypes.CDLL(None, use_errno=True)
def told(result):
    return errno.errorcode[ctypes.get_errno()] if result == -1 else "ALLOWED"
made = {
    "mount": told(libc.mount(b"none", b"/tmp", b"tmpfs", 0, None)),
    "bind": told(libc.mount(b"/", b"/tmp", None, 4096, None)),
    "remount": told(libc.mount(None, b"/", None, 32, None)),
    "umount": told(libc.umount2(b"/workspace", 2)),
    "chroot": told(libc.chroot(b"/tmp")),
}
os.chdir("/")
for _ in range(64):
    os.chdir("..")
made["top"] = sorted(os.listdir("."))
made["mountinfo"] = open("/proc/self/mountinfo").read()
print(json.dumps(made))
"""

INIT = """
import ctypes, errno, json, os, signal
libc = ctypes.CDLL(None, use_errno=True)
seen = {}
for pid in [int(one) for one in os.listdir("/proc") if one.isdigit() and int(one) != os.getpid()]:
    if os.stat(f"/proc/{pid}").st_uid == os.getuid():
        continue
    for number in (signal.SIGKILL, signal.SIGSTOP):
        try:
            os.kill(pid, number)
            seen[f"{pid} {number}"] = "ALLOWED"
        except OSError as error:
            seen[f"{pid} {number}"] = errno.errorcode[error.errno]
    attached = libc.ptrace(16, pid, 0, 0)
    seen[f"{pid} ptrace"] = errno.errorcode[ctypes.get_errno()] if attached == -1 else "ALLOWED"
    for name in ("mem", "maps", "environ", "root", "cwd", "fd"):
        try:
            os.listdir(f"/proc/{pid}/{name}") if name in ("root", "cwd", "fd") else open(
                f"/proc/{pid}/{name}", "r+b" if name == "mem" else "rb")
            seen[f"{pid} {name}"] = "ALLOWED"
        except OSError as error:
            seen[f"{pid} {name}"] = errno.errorcode[error.errno]
print(json.dumps(seen))
"""

SIBLING_WORK = """
import hashlib, os, socket, subprocess, sys, time
assert open("kept", "rb").read() == b"kept" * 1000
assert open("/tmp/kept").read() == "kept"
open("/dev/shm/secret", "w").write("secret of the sibling")
tcp = socket.create_server(("127.0.0.1", PORT))
named = socket.socket(socket.AF_UNIX)
named.bind("\\0NAME")
named.listen()
until = time.monotonic() + 5
while time.monotonic() < until and not os.path.exists("/signals/done"):
    time.sleep(.1)
assert open("kept", "rb").read() == b"kept" * 1000
assert sorted(os.listdir(".")) == [".git", "README", "answer", "check.sh", "kept"]
print("answered")
"""


def python(program: str, **call_changes: Any) -> dict[str, Any]:
    """Return a shell call that runs a program's text."""
    return call("shell", command=f"python3 -c {shlex.quote(program)}", **call_changes)


def make_sibling_calls() -> dict[str, Any]:
    """Return calls that go on, each with listeners of its own, until the others are over."""
    work = SIBLING_WORK.replace("PORT", str(SIBLING_PORT)).replace("NAME", SIBLING_SOCKET)
    first = shell(
        'python3 -c \'print("kept" * 1000, end="")\' >kept; printf kept >/tmp/kept; '
        "echo fixed >answer"
    )
    numbered = {f"answer {number}": python(work) for number in range(SIBLING_CALLS)}
    return {"first": first, **numbered}


WAIT = shell("for i in $(seq 300); do test -e /signals/go && exit 0; sleep .1; done; exit 1")


def make_surface_calls() -> dict[str, Any]:
    """Return attacks on privileges, kernel surface, network and others."""
    numbers = {name: one["call"] for name, one in SYSCALLS.items()}
    capabilities = "grep -E '^(Cap|NoNewPrivs|Seccomp:)' /proc/self/status"
    return {
        "wait": WAIT,
        "1 sweep": python(SWEEP.replace("CALLS", json.dumps(numbers))),
        "2 capabilities": shell(f'{capabilities}; sh -c "{capabilities}; :"'),
        "3 setuid": shell(
            "cp /bin/sh ./sh; chmod 4755 ./sh; ./sh -pc 'id -u; id -ru; sh -c \"id -u\"'; "
            "find / -xdev -perm /6000 -type f 2>/dev/null; su -c true </dev/null 2>/dev/null && "
            "echo became root; true"
        ),
        "4 descriptors": shell("ls -l /proc/self/fd; sh -c 'ls /proc/self/fd | wc -l'"),
        "4 cwd": call("shell", command="pwd", cwd="/proc/self/fd/7"),
        "5 overwrite": shell(
            "for one in /bin/sh /usr/bin/python3 /etc/passwd /sbin/docker-init /usr/new /new "
            "/forkyard/base.git/new /signals/go /proc/1/exe /proc/self/exe /sys/kernel/new; do "
            "(echo x >$one) 2>/dev/null && echo wrote $one; test -e $one && "
            "rm -f $one 2>/dev/null && echo removed $one; done; echo tried; "
            'python3 -c \'open("/proc/self/exe", "r+b")\''
        ),
        "7 mounts": python(MOUNTS),
        "9 sockets and ports": python(PORTS),
        "10 init": python(INIT),
        "10 kill all": shell("(sleep 60 &) ; kill -9 -1; kill -9 1; kill -STOP 1"),
        "10 after": shell("echo still here"),
        "11 core": shell(
            "ulimit -c unlimited; ulimit -c; cd /tmp; sh -c 'kill -SEGV $$'; "
            "find /tmp /workspace /home/agent /run -name 'core*'; "
            "(echo x >/proc/sys/kernel/core_pattern) && echo wrote"
        ),
        "20 clock": shell(
            "date -s 2001-01-01; python3 -c 'import time; time.clock_settime(0, 1)'; date +%Y"
        ),
        "39 routes": python(ROUTES),
        "46 sibling": shell(
            "cat /dev/shm/secret /tmp/kept; wc -l </proc/net/arp; "
            "cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -c answer[e]d; ls /forkyard"
        ),
        "47 environment": shell(
            "env; cat /proc/*/environ | tr '\\0' '\\n'; "
            "grep -rao 'open-sesam[e]' /etc /run /home /workspace /forkyard /signals; true"
        ),
    }


BOMB = "import os\ntry:\n    while True: os.fork()\nexcept OSError: os._exit(1)"
STUBBORN = "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass"
DETACHED = """
import os, signal, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for number in range(1, 65):
            try: signal.signal(number, signal.SIG_IGN)
            except (OSError, ValueError): pass
        while True:
            open("/workspace/alive", "a").write("x")
            time.sleep(.02)
    os._exit(0)
os.wait()
signal.signal(signal.SIGTERM, signal.SIG_IGN)
LAST
"""
SHARED_MEMORY = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
libc.shmat.restype = ctypes.c_void_p
while True:
    segment = libc.shmget(0, 8 << 20, 0o1600)
    if segment == -1:
        raise SystemExit("no more segments")
    place = libc.shmat(segment, None, 0)
    ctypes.memset(place, 1, 8 << 20)
"""


def make_resource_calls() -> dict[str, Any]:
    """Return attacks on what all tasks share."""
    spin = "import os\nfor i in range(8):\n    if os.fork() == 0: break\nwhile True: pass"
    return {
        "wait": WAIT,
        "12 bomb": python(BOMB),
        "12 shell bomb": shell(":(){ :|:& };:"),
        "12 stubborn bomb": python(STUBBORN, timeout_seconds=2),
        "12 after": shell("for i in 1 2 3; do sleep 0 & done; wait; echo forks"),
        "13 allocate": python("b = bytearray(400 << 20)"),
        "13 child": shell("head -c 600m /dev/zero | tail -c 500m >/dev/null; true"),
        "13 memfd": python(
            "import os\nf = os.memfd_create('x')\nwhile True: os.write(f, bytes(1 << 20))"
        ),
        "13 tmpfs": shell(
            "head -c 40m /dev/zero >/dev/shm/x; stat -c %s /dev/shm/x; rm /dev/shm/x; "
            "head -c 4m /dev/zero >/run/x; stat -c %s /run/x; rm /run/x"
        ),
        "13 shared memory": python(SHARED_MEMORY),
        "13 after": shell(
            "tail -n +2 /proc/sysvipc/shm | wc -l; "
            "python3 -c 'bytearray(120 << 20); print(\"memory\")'"
        ),
        "15 detached": python(DETACHED.replace("LAST", "print('main is done')")),
        "15 at the limit": python(
            DETACHED.replace("LAST", "while True: time.sleep(1)"), timeout_seconds=1
        ),
        "15 after": shell(
            "a=$(stat -c %s alive); sleep .3; test $a = $(stat -c %s alive) && echo dead; rm alive"
        ),
        "17 huge": python("import os\nopen('f', 'w').close()\nos.truncate('f', 2**63 - 1)"),
        "17 full": shell("fallocate -l 10G big; head -c 500m /dev/zero >big"),
        "17 empty": shell("rm -f big; stat -f -c '%a' . >/dev/null && echo freed"),
        "17 names": python("for i in range(10**6): open(f'/tmp/{i}', 'x').close()"),
        "17 no names": shell("find /tmp -type f -delete; echo freed"),
        "17 deep": python("import os\nwhile True: os.mkdir('d'); os.chdir('d')"),
        "17 not deep": shell("rm -rf d; echo freed"),
        "17 attributes": python(
            "import os\nopen('a', 'w').close()\n"
            "for i in range(65536): os.setxattr('a', f'user.{i}', b'x')"
        ),
        "18 sync storm": shell(
            "rm -f a; for i in 1 2 3 4 5 6; do (setsid sh -c 'while :; do head -c 2m /dev/zero "
            ">/tmp/s'$i'; sync; done' &); done; sleep .5; echo stormed"
        ),
        "19 spin": python(spin, timeout_seconds=2),
        "21 long argument": shell("x" * 200_000),
        "21 NUL": shell("echo a\0b"),
        "21 environment": shell(
            "env -i \"$(head -c 3000000 /dev/zero | tr '\\0' x)=1\" true || echo told"
        ),
        "last": shell("rm -rf /tmp/* /workspace/core*; echo last"),
    }


def make_file_calls(*, secret: str, marker: str) -> dict[str, Any]:
    """Return what is planted for whoever reads the files on the host."""
    config = (
        f"[core]\n\tfsmonitor = touch {marker}; false\n\tsshCommand = touch {marker}\n"
        f"\tattributesFile = /workspace/.attributes\n\tpager = touch {marker}\n"
        f'[filter "evil"]\n\tclean = touch {marker}; cat\n\tsmudge = touch {marker}; cat\n'
        f'[diff "evil"]\n\tcommand = touch {marker}\n\ttextconv = touch {marker}; cat\n'
        f"[diff]\n\texternal = touch {marker}\n"
    )
    fake = f"#!/bin/sh\ntouch {marker}\n"
    modules = '[submodule "sub"]\n\tpath = "sub\r"\n\turl = ext::touch\n\tignore = none\n'
    return {
        "wait": WAIT,
        "22 links": shell(
            f"ln -s /etc/shadow out.txt; ln -s / d; ln -s {secret} host; ln -s {secret}/passwd s"
        ),
        "22 read d/etc/shadow": call("read_file", path="d/etc/shadow"),
        "22 read host": call("read_file", path="host/passwd"),
        "22 write through": call("write_file", path="d/tmp/written", content="x"),
        "22 read outside": call("read_file", path="../etc/passwd"),
        "24 magic": shell(
            f"ln -s /proc/self/root{secret}/passwd magic; ln -s /dev/fd/0 fd; "
            "ln -s /proc/1/root root; ln -s /proc/self/cwd cwd"
        ),
        "24 read": call("read_file", path="magic"),
        "25 no files": shell(
            "mkdir pipes; cd pipes; mkfifo .gitignore .gitattributes .gitmodules; "
            "mkdir result.json; mknod device c 1 3; mknod disk b 7 0; "
            "python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"socket\")'; ls -a"
        ),
        "25 read a pipe": call("read_file", path="pipes/.gitignore"),
        "26 sparse": shell("truncate -s 15G sparse || truncate -s 1G sparse; stat -c %s sparse"),
        "26 growing": shell(
            "(setsid sh -c 'while :; do echo xxxxxxxxxxxxxxxx >>growing; done' &); sleep .3; "
            "wc -c <growing"
        ),
        "26 not sparse": shell("rm sparse; echo removed"),
        "28 archives": shell(
            "mkdir archives && cd archives && python3 -c '\n"
            "import tarfile, io, zipfile\n"
            'with tarfile.open("evil.tar", "w") as t:\n'
            f'    for n in ("../../../..{marker}", "{marker}"):\n'
            "        t.addfile(tarfile.TarInfo(n), io.BytesIO())\n"
            '    i = tarfile.TarInfo("dev"); i.type = tarfile.CHRTYPE; t.addfile(i)\n'
            'with zipfile.ZipFile("evil.zip", "w", 8) as z:\n'
            f'    z.writestr("../../../..{marker}", b"")\n'
            '    z.writestr("bomb", bytes(1 << 24))\n'
            "'; ls"
        ),
        "29 own tools": shell(
            "mkdir -p ~/.local/bin; "
            "for one in xz unxz gzip gunzip unpigz pigz tar git docker-init sleep sh; do "
            f"printf %s {shlex.quote(fake)} >~/.local/bin/$one; "
            "chmod 755 ~/.local/bin/$one; done; for one in xz unpigz; do "
            "(echo x >/usr/bin/$one) 2>/dev/null && echo wrote; done; true"
        ),
        "29 back": shell("/bin/rm -rf ~/.local/bin; echo removed"),
        "32 nested": shell(
            "/usr/bin/git init -q sub; echo 1 >sub/f; "
            f"for one in .git sub/.git; do printf %s {shlex.quote(config)} >>$one/config; "
            "mkdir -p $one/hooks; for hook in post-checkout pre-commit reference-transaction "
            f"post-index-change; do printf %s {shlex.quote(fake)} >$one/hooks/$hook; "
            "chmod 755 $one/hooks/$hook; done; done; "
            "for one in . sub; do echo '* filter=evil diff=evil' >$one/.gitattributes; done; "
            "cp .gitattributes .attributes; echo more >>README"
        ),
        "34 gitlinks": shell(
            f"printf %s {shlex.quote(modules)} >.gitmodules; "
            "mkdir -p deep/.GIT 'deep/.git ' 'deep/git~1' 'cr\r' 'deep/er'; echo x >deep/.GIT/x; "
            "echo x >'deep/git~1/x'; echo x >'cr\r/x'; "
            f"echo 'gitdir: {secret}' >deep/er/.git; rm -rf .git/config; "
            "/usr/bin/git -c core.fsmonitor=false update-index --add --cacheinfo "
            "160000,1234567812345678123456781234567812345678,link; echo planted"
        ),
        "37 executed": shell(
            "mkdir -p .vscode .husky .github/workflows; echo '{}' >.vscode/tasks.json; "
            f"echo 'touch {marker}' >.envrc; printf %s {shlex.quote(fake)} >.husky/post-checkout; "
            "chmod 755 .husky/post-checkout; echo 'on: push' >.github/workflows/ci.yml; "
            "echo 'import os' >conftest.py"
        ),
    }
