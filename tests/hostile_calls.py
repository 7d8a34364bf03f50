"""What the hostile tasks of the batch do, by labels that begin with the case's number.

The numbers are those of tests/hostile/CASES.md. Everything here runs inside of a container.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hostile_programs import (
    BOMB,
    DETACHED,
    INIT,
    MOUNTS,
    PORTS,
    ROUTES,
    SHARED_MEMORY,
    SIBLING_WORK,
    STUBBORN,
    SWEEP,
)
from run_builders import call, shell

SYSCALLS: Mapping[str, Any] = json.loads(
    (Path(__file__).parent / "hostile/syscalls.json").read_text()
)
"""Golden: system calls with their numbers on x86-64 and what the filter answers."""

SIBLING_PORT = 47001
SIBLING_SOCKET = "forkyard-sibling"
SIBLING_CALLS = 24


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
    return {"wait": WAIT, **_attack_privileges(), **_attack_residents(), **_look_for_others()}


def _attack_privileges() -> dict[str, Any]:
    numbers = {name: one["call"] for name, one in SYSCALLS.items()}
    capabilities = "grep -E '^(Cap|NoNewPrivs|Seccomp:)' /proc/self/status"
    return {
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
    }


def _attack_residents() -> dict[str, Any]:
    return {
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
    }


def _look_for_others() -> dict[str, Any]:
    return {
        "9 sockets and ports": python(PORTS),
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


def make_resource_calls() -> dict[str, Any]:
    """Return attacks on what all tasks share."""
    return {"wait": WAIT, **_use_up_memory(), **_hide(), **_use_up_disk(), **_use_up_time()}


def _use_up_memory() -> dict[str, Any]:
    return {
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
    }


def _hide() -> dict[str, Any]:
    return {
        "15 detached": python(DETACHED.replace("LAST", "print('main is done')")),
        "15 at the limit": python(
            DETACHED.replace("LAST", "while True: time.sleep(1)"), timeout_seconds=1
        ),
        "15 after": shell(
            "a=$(stat -c %s alive); sleep .3; test $a = $(stat -c %s alive) && echo dead; rm alive"
        ),
    }


def _use_up_disk() -> dict[str, Any]:
    return {
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
    }


def _use_up_time() -> dict[str, Any]:
    spin = "import os\nfor i in range(8):\n    if os.fork() == 0: break\nwhile True: pass"
    return {
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
    return {
        "wait": WAIT,
        **_plant_links(secret),
        **_plant_odd_files(marker),
        **_plant_tools(marker),
        **_plant_repositories(marker),
        **_plant_names(secret),
        **_plant_executed(marker),
    }


def _plant_links(secret: str) -> dict[str, Any]:
    return {
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
    }


def _plant_odd_files(marker: str) -> dict[str, Any]:
    return {
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
    }


def _plant_tools(marker: str) -> dict[str, Any]:
    fake = f"#!/bin/sh\ntouch {marker}\n"
    return {
        "29 own tools": shell(
            "mkdir -p ~/.local/bin; "
            "for one in xz unxz gzip gunzip unpigz pigz tar git docker-init sleep sh; do "
            f"printf %s {shlex.quote(fake)} >~/.local/bin/$one; "
            "chmod 755 ~/.local/bin/$one; done; for one in xz unpigz; do "
            "(echo x >/usr/bin/$one) 2>/dev/null && echo wrote; done; true"
        ),
        "29 back": shell("/bin/rm -rf ~/.local/bin; echo removed"),
    }


def _plant_repositories(marker: str) -> dict[str, Any]:
    config = (
        f"[core]\n\tfsmonitor = touch {marker}; false\n\tsshCommand = touch {marker}\n"
        f"\tattributesFile = /workspace/.attributes\n\tpager = touch {marker}\n"
        f'[filter "evil"]\n\tclean = touch {marker}; cat\n\tsmudge = touch {marker}; cat\n'
        f'[diff "evil"]\n\tcommand = touch {marker}\n\ttextconv = touch {marker}; cat\n'
        f"[diff]\n\texternal = touch {marker}\n"
    )
    fake = f"#!/bin/sh\ntouch {marker}\n"
    return {
        "32 nested": shell(
            "/usr/bin/git init -q sub; echo 1 >sub/f; "
            f"for one in .git sub/.git; do printf %s {shlex.quote(config)} >>$one/config; "
            "mkdir -p $one/hooks; for hook in post-checkout pre-commit reference-transaction "
            f"post-index-change; do printf %s {shlex.quote(fake)} >$one/hooks/$hook; "
            "chmod 755 $one/hooks/$hook; done; done; "
            "for one in . sub; do echo '* filter=evil diff=evil' >$one/.gitattributes; done; "
            "cp .gitattributes .attributes; echo more >>README"
        ),
    }


def _plant_names(secret: str) -> dict[str, Any]:
    modules = '[submodule "sub"]\n\tpath = "sub\r"\n\turl = ext::touch\n\tignore = none\n'
    return {
        "34 gitlinks": shell(
            f"printf %s {shlex.quote(modules)} >.gitmodules; "
            "mkdir -p deep/.GIT 'deep/.git ' 'deep/git~1' 'cr\r' 'deep/er'; echo x >deep/.GIT/x; "
            "echo x >'deep/git~1/x'; echo x >'cr\r/x'; "
            f"echo 'gitdir: {secret}' >deep/er/.git; rm -rf .git/config; "
            "/usr/bin/git -c core.fsmonitor=false update-index --add --cacheinfo "
            "160000,1234567812345678123456781234567812345678,link; echo planted"
        ),
    }


def _plant_executed(marker: str) -> dict[str, Any]:
    fake = f"#!/bin/sh\ntouch {marker}\n"
    return {
        "37 executed": shell(
            "mkdir -p .vscode .husky .github/workflows; echo '{}' >.vscode/tasks.json; "
            f"echo 'touch {marker}' >.envrc; printf %s {shlex.quote(fake)} >.husky/post-checkout; "
            "chmod 755 .husky/post-checkout; echo 'on: push' >.github/workflows/ci.yml; "
            "echo 'import os' >conftest.py"
        ),
    }
