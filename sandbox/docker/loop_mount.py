"""Loop-mounted file systems through system calls: no program is started per volume.

Attaching, mounting and unmounting by `mount` and `umount` costs about 8 ms a volume, by system
calls 1.5 ms; a formatted template copied hole by hole costs 2 ms, `mkfs.ext4` 10 ms (measured on
two cores, 4 GiB image). Needs root.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_LOOP_CTL_GET_FREE = 0x4C82  # linux/loop.h
_LOOP_CONFIGURE = 0x4C0A  # linux/loop.h, since 5.8
_LO_FLAGS_AUTOCLEAR = 4  # linux/loop.h: the last unmount frees the device
_CONFIG_BYTES = 304  # sizeof(struct loop_config)
_FLAGS_OFFSET = 60  # of info.lo_flags in struct loop_config

_MS_NOSUID, _MS_NODEV, _MS_NOATIME = 2, 4, 1024  # linux/mount.h
_MNT_DETACH, _UMOUNT_NOFOLLOW = 2, 8  # linux/fs.h

_COPY_BYTES = 16 * 1024 * 1024

_LIBC = ctypes.CDLL(None, use_errno=True)


def mount_image(image: Path, point: Path) -> None:
    """Mount an ext4 image file on a directory: nosuid, nodev, noatime.

    Raises:
        OSError: there is no loop device, or the kernel refuses the file system.
    """
    with open_file(image, os.O_RDWR) as backing:
        number, device = _attach(backing)
    try:
        flags = _MS_NOSUID | _MS_NODEV | _MS_NOATIME
        source = f"/dev/loop{number}".encode()
        target = os.fsencode(point)
        _check(_LIBC.mount(source, target, b"ext4", ctypes.c_ulong(flags), None), point)
    finally:
        os.close(device)


def unmount(point: str, *, detach: bool = False) -> None:
    """Unmount a directory, or detach it at once and let the kernel finish later.

    Raises:
        OSError: something holds it (EBUSY), or nothing is mounted there.
    """
    flags = _UMOUNT_NOFOLLOW | (_MNT_DETACH if detach else 0)
    _check(_LIBC.umount2(os.fsencode(point), flags), Path(point))


def sync_file_system(point: Path) -> None:
    """Write back all of a file system, and wait for it.

    Raises:
        OSError: some of what was written found no room, or was lost (EIO, ENOSPC).
    """
    with open_file(point, os.O_RDONLY | os.O_DIRECTORY) as descriptor:
        _check(_LIBC.syncfs(descriptor), point)


def copy_sparse(template: Path, copy: Path) -> None:
    """Copy a file's data and keep its holes; the copy must not exist.

    Raises:
        OSError: no room, or the copy exists.
    """
    with (
        open_file(template, os.O_RDONLY) as source,
        open_file(copy, os.O_RDWR | os.O_CREAT | os.O_EXCL) as target,
    ):
        size = os.fstat(source).st_size
        os.truncate(target, size)
        start = 0
        while (start := _find_data(source, start, size)) < size:
            end = os.lseek(source, start, os.SEEK_HOLE)
            _copy_range(source, target, start, end)
            start = end


@contextmanager
def open_file(path: Path, flags: int) -> Iterator[int]:
    """Open a descriptor for a block; a file that is made is private to its owner."""
    descriptor = os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _attach(backing: int) -> tuple[int, int]:
    """Return number and descriptor of a loop device for a file; others may take the free one."""
    config = bytearray(_CONFIG_BYTES)
    struct.pack_into("<I", config, 0, backing)
    struct.pack_into("<I", config, _FLAGS_OFFSET, _LO_FLAGS_AUTOCLEAR)
    with open_file(Path("/dev/loop-control"), os.O_RDWR) as control:
        while True:
            number = fcntl.ioctl(control, _LOOP_CTL_GET_FREE)
            device = os.open(f"/dev/loop{number}", os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.ioctl(device, _LOOP_CONFIGURE, bytes(config))
            except OSError as error:
                os.close(device)
                if error.errno != errno.EBUSY:
                    raise
            else:
                return number, device


def _find_data(source: int, start: int, size: int) -> int:
    try:
        return os.lseek(source, start, os.SEEK_DATA)
    except OSError as error:
        if error.errno != errno.ENXIO:  # lseek(2): no data up to the end
            raise
        return size


def _copy_range(source: int, target: int, start: int, end: int) -> None:
    while start < end:
        start += os.copy_file_range(source, target, min(end - start, _COPY_BYTES), start, start)


def _check(result: int, path: Path) -> None:
    if result:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(path))
