"""What this Linux host has of what sandboxes need: git, kernel features, disk, memory."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from sandbox.survey import Feature, HostFacts

LOOP = "loop devices"
MKFS = "mkfs.ext4"

_MIB = 1024 * 1024
_TOOL_SECONDS = 10
_PROC = Path("/proc")


def describe_host(home: Path) -> HostFacts:
    """Return what the host has.

    Args:
        home: where volumes are made; need not exist yet.
    """
    place = next(path for path in (home, *home.parents) if path.exists())
    room = os.statvfs(place)
    memory = _read_memory()
    return HostFacts(
        git_version=_ask("git", "--version").removeprefix("git version "),
        is_root=os.geteuid() == 0,
        features=tuple(_list_features(place)),
        disk_free_mib=room.f_bavail * room.f_frsize // _MIB,
        disk_total_mib=room.f_blocks * room.f_frsize // _MIB,
        disk_kind=find_mount(place, _read(_PROC / "self/mountinfo"))[1],
        memory_free_mib=memory.get("MemAvailable", 0) // 1024,
        memory_total_mib=memory.get("MemTotal", 0) // 1024,
    )


def find_mount(place: Path, mountinfo: str) -> tuple[str, str]:
    """Return how mounts propagate where a path is, and the type of its file system.

    Args:
        place: an absolute path.
        mountinfo: text of /proc/self/mountinfo.
    """
    best, found = -1, ("", "")
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        fields = before.split(" ")
        point = fields[4].encode().decode("unicode_escape")  # proc(5): octal escapes
        if place.is_relative_to(point) and len(point) >= best:
            shared = any(one.startswith("shared:") for one in fields[6:])
            best, found = len(point), ("shared" if shared else "private", after.split(" ")[0])
    return found


def _list_features(place: Path) -> Iterator[Feature]:
    control = Path("/dev/loop-control")
    yield _feature(LOOP, str(control) if control.exists() else "", lacking=f"no {control}")
    yield _feature(MKFS, shutil.which(MKFS) or "", lacking="not installed (package e2fsprogs)")
    known = "ext4" in _read(_PROC / "filesystems").split()
    yield _feature("ext4", "known to the kernel" if known else "", lacking="not loaded yet")
    yield _feature("user namespaces", *_find_user_namespaces())
    has_ipv6 = (_PROC / "sys/net/ipv6").is_dir()
    yield _feature("IPv6", "switched off inside" if has_ipv6 else "", lacking="not in the kernel")
    propagation = find_mount(place, _read(_PROC / "self/mountinfo"))[0]
    yield _feature("mount propagation", propagation)
    pattern = _read(_PROC / "sys/kernel/core_pattern").strip()
    yield _feature("core dumps go to", pattern)


def _find_user_namespaces() -> tuple[str, str]:
    """Return how many a user may have, and why none."""
    most = _read(_PROC / "sys/user/max_user_namespaces").strip()
    # Debian's own switch; where it does not exist nothing forbids them
    switched_off = _read(_PROC / "sys/kernel/unprivileged_userns_clone").strip() == "0"
    if switched_off:
        return "", "switched off (kernel.unprivileged_userns_clone)"
    return (f"at most {most}" if most not in ("", "0") else ""), "not allowed by the kernel"


def _feature(name: str, fact: str, lacking: str = "unknown") -> Feature:
    return Feature(name=name, present=bool(fact), fact=fact or lacking)


def _read_memory() -> dict[str, int]:
    rows = (line.split() for line in _read(_PROC / "meminfo").splitlines())
    return {row[0].rstrip(":"): int(row[1]) for row in rows if len(row) > 1}


def _read(file: Path) -> str:
    """Return a file's text; empty when it cannot be read: then the host lacks what it tells."""
    try:
        return file.read_text("utf-8", "surrogateescape")
    except OSError:
        return ""


def _ask(*argv: str) -> str:
    try:
        done = subprocess.run(argv, capture_output=True, timeout=_TOOL_SECONDS, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.decode("utf-8", "replace").strip()
