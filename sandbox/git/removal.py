"""Removes trees that hostile code made: any depth, any modes, never through a link.

Several may remove one tree at once: what another was quicker to remove is removed.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Final

from sandbox.git.descriptors import open_directory

_PARENT: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


def remove_entry(parent: int, name: bytes) -> None:
    """Remove a name and, where it is a directory, all below it; gone already is success.

    Raises:
        OSError: something in it cannot be removed.
    """
    try:
        os.unlink(name, dir_fd=parent)
    except FileNotFoundError:
        return
    except (IsADirectoryError, PermissionError):  # unlink(2) of a directory, by POSIX EPERM
        with suppress(FileNotFoundError):
            _remove_tree(parent, name)


def _remove_tree(parent: int, name: bytes) -> None:
    """Go down by name and up by `..`, so that no depth needs more than two descriptors."""
    current = _open_for_removal(parent, name)
    trail: list[bytes] = []
    pending = [_unlink_files(current)]
    try:
        while pending:
            if pending[-1]:
                step = pending[-1].pop()
                below = _find_for_removal(current, step)
                if below is not None:
                    os.close(current)
                    current = below
                    trail.append(step)
                    pending.append(_unlink_files(current))
                continue
            pending.pop()
            if trail:
                above = os.open("..", _PARENT, dir_fd=current)
                os.close(current)
                current = above
                with suppress(FileNotFoundError):
                    os.rmdir(trail.pop(), dir_fd=current)
    finally:
        os.close(current)
    os.rmdir(name, dir_fd=parent)


def _find_for_removal(parent: int, name: bytes) -> int | None:
    """Open a directory, or return None where another has removed it."""
    try:
        return _open_for_removal(parent, name)
    except FileNotFoundError:
        return None


def _open_for_removal(parent: int, name: bytes) -> int:
    descriptor = open_directory(parent, name)
    if os.geteuid() != 0:
        os.fchmod(descriptor, 0o700)
    return descriptor


def _unlink_files(directory: int) -> list[bytes]:
    """Unlink all that is no directory; return the names of the directories."""
    below: list[bytes] = []
    with os.scandir(directory) as listing:
        for item in listing:
            name = os.fsencode(item.name)
            if item.is_dir(follow_symlinks=False):
                below.append(name)
            else:
                with suppress(FileNotFoundError):
                    os.unlink(name, dir_fd=directory)
    return below
