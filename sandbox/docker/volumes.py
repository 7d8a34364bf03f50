"""The volume of one task: workspace, home and tmp in one place with one limit.

As root it is a file system of its own in a sparse file: the kernel answers ENOSPC, set-user-id
bits and devices mean nothing, and the end is one umount, whatever the agent left in it. Without
root (`disk: watched`) it is a directory whose use is added up after each command.

    work/<name>/owner       instance and attempt, for the reaper
    work/<name>/image       the sparse file, a copy of a formatted template; not when watched
    work/<name>/files/      workspace, home, tmp: whoever fills the volume makes them
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import secrets
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import structlog

from policies import DiskLimit, Limits
from sandbox.docker.loop_mount import copy_sparse, mount_image, open_file, unmount
from sandbox.docker.usage import add_up
from sandbox.errors import DiskFullError, EngineError, UnsupportedError
from sandbox.git.removal import remove_entry

log = structlog.get_logger(__name__)

DISK_MIB = "disk_mib"
INODES = "inodes"
"""Names of the policy's limits on a volume."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,120}")
_MIB = 1024 * 1024
_INODE_BYTES = 256  # mke2fs.conf(5): default of ext4
_INODES_PER_MIB = 256  # as many as ext4 can have: one block of bitmap for each 128 MiB
_FIXED_MIB = 8  # superblock, group descriptors and bitmaps
_FULL_BYTES = 64 * 1024  # ext4 refuses writes while a few reserved blocks still show as free
_TOOL_SECONDS = 60.0
_OWNER_FILE = "owner"
_TRASH = ".trash-"
_TEMPLATE = ".template-"
_TOKEN_BYTES = 8
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


@dataclass(frozen=True, slots=True)
class VolumeOwner:
    """Whose a volume is."""

    instance_id: str
    task_id: str
    attempt: int


@dataclass(frozen=True, slots=True)
class Volume:
    """A volume in use."""

    files: Path
    """Empty at first; workspace, home and tmp are made by who fills it."""
    disk: DiskLimit
    limits: Limits

    def used_up(self) -> str:
        """Return the name of the limit that nothing is left of; empty while there is room.

        Raises:
            SnapshotError: a watched volume cannot be looked at.
        """
        if self.disk is DiskLimit.WATCHED:
            used = add_up(self.files)
            no_inodes = used.entries > self.limits.inodes
            no_bytes = used.size_bytes > self.limits.disk_mib * _MIB
        else:
            room = os.statvfs(self.files)
            no_inodes = room.f_favail == 0
            no_bytes = room.f_bavail * room.f_frsize < _FULL_BYTES
        if no_bytes:
            return DISK_MIB
        return INODES if no_inodes else ""


class VolumeStore:
    """All volumes of one home."""

    def __init__(self, work: Path, *, may_mount: bool) -> None:
        self._work = work
        self._may_mount = may_mount

    def check(self, disk: DiskLimit) -> None:
        """Say whether a limit of that kind can be held here.

        Raises:
            UnsupportedError: it cannot.
        """
        if disk is DiskLimit.HARD and not self._may_mount:
            raise UnsupportedError(
                "a hard disk limit needs root on this host (a loop-mounted file system); "
                "`disk: watched` in the policy samples the use instead"
            )

    @contextmanager
    def open_volume(
        self, name: str, owner: VolumeOwner, *, limits: Limits, disk: DiskLimit
    ) -> Iterator[Volume]:
        """Make an empty volume; remove it at the end. One left by a dead process is replaced.

        Raises:
            UnsupportedError: the limit cannot be held here.
            DiskFullError: the host has no room for it.
            EngineError: it cannot be made.
        """
        self.check(disk)
        directory = self._directory(name)
        self.remove(name)
        try:
            yield self._make(directory, owner, limits=limits, disk=disk)
        finally:
            self.remove(name, owner=owner)

    def files_of(self, name: str) -> Path:
        """Return where the files of a volume are, whether it exists or not."""
        return self._directory(name) / "files"

    def list_owners(self) -> tuple[tuple[str, VolumeOwner], ...]:
        """Return the name and owner of each volume."""
        if not self._work.is_dir():
            return ()
        names = sorted(entry.name for entry in self._work.iterdir() if _NAME.fullmatch(entry.name))
        owners = [(name, _read_owner(self._work / name)) for name in names]
        return tuple((name, owner) for name, owner in owners if owner is not None)

    def remove(
        self,
        name: str,
        *,
        owner: VolumeOwner | None = None,
        forget: Callable[[Path], object] | None = None,
    ) -> bool:
        """Unmount and delete a volume; return False if there was none.

        Args:
            name: of the volume.
            owner: touch it only while it is this one's; a new attempt may have taken the name.
            forget: told where its files were, before anybody else can take the name.

        Raises:
            EngineError: it cannot be deleted.
        """
        directory = self._directory(name)
        with self._locked():
            if not directory.exists() or owner not in (None, _read_owner(directory)):
                return False
            # the kernel tells mount points without links: a home may be behind one
            for point in _list_mounts_below(Path(os.path.realpath(directory))):
                _unmount(point)
            trash = self._work / f"{_TRASH}{secrets.token_hex(_TOKEN_BYTES)}"
            directory.rename(trash)  # so that nobody waits for the deletion
            if forget is not None:
                forget(self.files_of(name))
        _delete(trash)
        return True

    def empty_trash(self) -> None:
        """Delete what a killed process had begun to delete.

        Raises:
            EngineError: it cannot be deleted.
        """
        for trash in self._work.glob(f"{_TRASH}*"):
            _delete(trash)

    def _directory(self, name: str) -> Path:
        if not _NAME.fullmatch(name):
            raise UnsupportedError(f"{name!r} cannot name a volume")
        return self._work / name

    def _mount_image(self, image: Path, point: Path, limits: Limits) -> None:
        copy_sparse(self._find_template(limits), image)
        mount_image(image, point)
        (point / "lost+found").rmdir()  # nothing is ever repaired here

    def _find_template(self, limits: Limits) -> Path:
        """Return an empty file system of that size, formatted once for all volumes of its kind."""
        inodes = min(limits.inodes, limits.disk_mib * _INODES_PER_MIB)
        template = self._work / f"{_TEMPLATE}{limits.disk_mib}-{inodes}"
        if not template.exists():
            with self._locked():
                fresh = template.with_suffix(".new")
                fresh.unlink(missing_ok=True)  # a killed process's half
                _format_image(fresh, limits, inodes)
                with open_file(fresh, os.O_RDONLY) as formatted:
                    os.fsync(formatted)  # what has the name is whole, also after a power cut
                fresh.rename(template)
        return template

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Let one process at a time make or remove: names and loop devices are shared."""
        self._work.mkdir(parents=True, exist_ok=True)
        with (self._work / ".lock").open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _make(
        self, directory: Path, owner: VolumeOwner, *, limits: Limits, disk: DiskLimit
    ) -> Volume:
        files = directory / "files"
        try:
            with self._locked():
                directory.mkdir()
                # The owner comes first: what a crash leaves is found by the reaper.
                _write_owner(directory, owner)
                files.mkdir()
            if disk is DiskLimit.HARD:
                self._mount_image(directory / "image", files, limits)
        except OSError as error:
            kind = DiskFullError if error.errno in _NO_ROOM else EngineError
            raise kind(f"volume {str(directory)!r} cannot be made: {error}") from error
        return Volume(files=files, disk=disk, limits=limits)


def _format_image(image: Path, limits: Limits, inodes: int) -> None:
    # The tables for the inodes come on top, so that what is promised is there for data.
    tables_mib = inodes * _INODE_BYTES // _MIB + _FIXED_MIB
    with image.open("xb") as file:
        os.truncate(file.fileno(), (limits.disk_mib + tables_mib) * _MIB)
    # No journal: after a crash the volume is made anew from the snapshot, never repaired.
    _run_tool(
        *("mkfs.ext4", "-q", "-F", "-b", "4096", "-m", "0", "-O", "^has_journal"),
        *("-N", str(inodes), "-I", str(_INODE_BYTES)),
        *("-E", "lazy_itable_init=1,nodiscard", str(image)),
    )


def _unmount(point: str) -> None:
    try:
        unmount(point)
    except OSError as error:
        # Something holds it: detach it now, the kernel ends it with the last user.
        log.warning("volume.detached", mount_point=point, problem=str(error))
        try:
            unmount(point, detach=True)
        except OSError as stuck:
            raise EngineError(f"volume {point!r} cannot be unmounted: {stuck}") from stuck


def _list_mounts_below(directory: Path) -> tuple[str, ...]:
    """Return mount points at or below a directory, deepest first, also of a killed process."""
    prefix = str(directory)
    text = Path("/proc/self/mountinfo").read_text("utf-8", "surrogateescape")
    points = [_unescape(line.split(" ")[4]) for line in text.splitlines()]
    below = [point for point in points if point == prefix or point.startswith(f"{prefix}/")]
    return tuple(sorted(below, key=len, reverse=True))


def _unescape(text: str) -> str:
    # proc(5): space, tab, newline and backslash appear as octal escapes
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found.group(1), 8)), text)


def _delete(directory: Path) -> None:
    parent = os.open(directory.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        remove_entry(parent, os.fsencode(directory.name))
    except OSError as error:
        raise EngineError(f"volume {str(directory)!r} cannot be deleted: {error}") from error
    finally:
        os.close(parent)


def _write_owner(directory: Path, owner: VolumeOwner) -> None:
    text = f"{owner.instance_id}\n{owner.task_id}\n{owner.attempt}\n"
    (directory / _OWNER_FILE).write_text(text, "utf-8")


def _read_owner(directory: Path) -> VolumeOwner | None:
    try:
        lines = (directory / _OWNER_FILE).read_text("utf-8").splitlines()
        instance_id, task_id, attempt = lines
        return VolumeOwner(instance_id, task_id, int(attempt))
    except (OSError, ValueError):
        return None


def _run_tool(*argv: str) -> None:
    try:
        subprocess.run(argv, check=True, capture_output=True, timeout=_TOOL_SECONDS)
    except FileNotFoundError as error:
        raise UnsupportedError(f"{argv[0]} is not installed on this host") from error
    except subprocess.TimeoutExpired as error:
        raise EngineError(f"{argv[0]} does not end") from error
    except subprocess.CalledProcessError as error:
        said = error.stderr.decode("utf-8", "replace").strip()
        kind = DiskFullError if "No space left" in said else EngineError
        raise kind(f"{argv[0]} failed: {said}") from error
