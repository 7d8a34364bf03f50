"""Programs that hostile tasks run inside of their container; each prints what it reached."""

from __future__ import annotations

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

SET_ATTRIBUTES = """
import ctypes, fcntl, json, os, struct
libc = ctypes.CDLL(None, use_errno=True)
os.makedirs("attributes", exist_ok=True)
file = os.open("attributes/file", os.O_RDWR | os.O_CREAT)
folder = os.open("attributes", os.O_RDONLY)
acl = struct.pack("<I", 2) + b"".join(
    struct.pack("<HHI", tag, 7, 0xFFFFFFFF) for tag in (1, 4, 32)
)
def attempt(call, *arguments, **more):
    try:
        call(*arguments, **more)
    except OSError as error:
        return error.errno
    return 0
def native(number, *arguments):
    ctypes.set_errno(0)
    libc.syscall(ctypes.c_long(number), *map(ctypes.c_ulong, arguments))
    return ctypes.get_errno()
def change(request):
    ctypes.set_errno(0)
    data = ctypes.create_string_buffer(struct.pack("<q", 0x40), 32)
    libc.syscall(ctypes.c_long(IOCTL), ctypes.c_ulong(file), ctypes.c_ulong(request), data)
    return ctypes.get_errno()
IOCTL = 29 if os.uname().machine == "aarch64" else 16
print(json.dumps({
    "set": attempt(os.setxattr, "attributes/file", "user.x", b"1"),
    "set link": attempt(os.setxattr, "attributes/file", "user.x", b"1", follow_symlinks=False),
    "set descriptor": attempt(os.setxattr, file, "user.x", b"1"),
    "set acl": attempt(os.setxattr, folder, "system.posix_acl_default", acl),
    "remove": attempt(os.removexattr, "attributes/file", "user.x"),
    "remove link": attempt(os.removexattr, "attributes/file", "user.x", follow_symlinks=False),
    "remove descriptor": attempt(os.removexattr, file, "user.x"),
    "setxattrat": native(463, 0, 0, 0, 0, 0, 0),
    "removexattrat": native(466, 0, 0, 0, 0),
    "file_setattr": native(469, 0, 0, 0, 0, 0),
    "ioctl flags": change(0x40086602),
    "ioctl flags, wide": change(0x140086602),
    "ioctl FSSETXATTR": change(0x401C5820),
    "ioctl version": change(0x40087602),
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
