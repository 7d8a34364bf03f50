"""The SQLite file: on a file system that WAL works on, readable by its owner alone."""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from runner.errors import StoreUnusableError

# WAL needs shared memory and locks that every process sees; these do not promise them
SHARED_FILE_SYSTEMS = frozenset(
    {
        "9p",
        "afs",
        "ceph",
        "cifs",
        "glusterfs",
        "gpfs",
        "lustre",
        "nfs",
        "nfs4",
        "prl_fs",
        "smb3",
        "smbfs",
        "vboxsf",
        "virtiofs",
    }
)

_OCTAL = re.compile(r"\\([0-7]{3})")  # how the kernel writes blanks in mount points


def prepare_database_file(path: Path, *, mountinfo: str) -> None:
    """Make the file (0600) where missing, never its folder, and check what is there.

    Args:
        path: the database file, absolute.
        mountinfo: text of /proc/self/mountinfo.

    Raises:
        StoreUnusableError: the file system is shared over a network or by a hypervisor, the
            folder is not there or can be written by others, or the file cannot be made.
    """
    try:
        if not path.parent.is_dir():
            raise StoreUnusableError(
                f"the store {str(path)!r} cannot be made: there is no folder {str(path.parent)!r};"
                " make it, or correct FORKYARD_STORE"
            )
        real = path.resolve()
        refuse_shared_file_system(real.parent, mountinfo=mountinfo)
        _refuse_open_folder(real.parent)
        _make_private(real)
    except OSError as error:
        raise StoreUnusableError(f"the store {str(path)!r} cannot be made: {error}") from error


def refuse_shared_file_system(folder: Path, *, mountinfo: str) -> None:
    """Refuse a folder where several processes cannot share a WAL file.

    Raises:
        StoreUnusableError: it is on such a file system, or nothing says what it is on.
    """
    kind = find_file_system(folder, mountinfo=mountinfo)
    if kind in SHARED_FILE_SYSTEMS or kind.split(".")[0] in {"fuse", "fuseblk"}:
        raise StoreUnusableError(
            f"the store cannot be kept in {str(folder)!r}: its file system is {kind}, which loses "
            "data under SQLite's WAL; set FORKYARD_HOME to a local disk"
        )
    if not kind:
        raise StoreUnusableError(f"nothing says what file system {str(folder)!r} is on")


def find_file_system(folder: Path, *, mountinfo: str) -> str:
    """Return the type of the file system that holds a resolved folder; empty if none is named."""
    best: tuple[int, str] = (-1, "")
    for line in mountinfo.split("\n"):
        left, _, right = line.partition(" - ")  # proc(5): optional fields end at the hyphen
        fields = left.split(" ")
        if len(fields) < 5 or not right:
            continue
        point = Path(_OCTAL.sub(lambda match: chr(int(match[1], 8)), fields[4]))
        # a later mount on the same point hides the earlier one
        if folder.is_relative_to(point) and len(point.parts) >= best[0]:
            best = (len(point.parts), right.split(" ")[0])
    return best[1]


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Keep other processes from opening or migrating the same store meanwhile.

    The folder is locked, not the file: closing any handle on the file would drop SQLite's locks.
    """
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _refuse_open_folder(folder: Path) -> None:
    mode = folder.stat().st_mode
    if mode & 0o022:
        raise StoreUnusableError(
            f"others may write to {str(folder)!r} (mode {mode & 0o7777:04o}); "
            f"the store belongs in a folder of its own: chmod 700 it, or set FORKYARD_HOME"
        )


def _make_private(path: Path) -> None:
    try:
        # exclusive: an existing file is never opened here, for the reason in lock_folder
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        path.chmod(0o600)
