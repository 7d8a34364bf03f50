r"""Which names git refuses to hold, in any spelling that some file system takes for `.git`.

The rules are those of git's own `verify_path`: `.git` in any case; with the code points that HFS+
ignores; with the endings that NTFS drops; `git~1`; a backslash counts as a separator. A symlink
is refused as `.gitmodules` too. Such files live in a snapshot's `extra/`, never in its git trees.
"""

from __future__ import annotations

import re
from typing import Final

DOT_GIT: Final = b".git"

# git's utf8.c: code points that HFS+ leaves out when it compares names
_HFS_IGNORED: Final = re.compile("[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]")
_NTFS_GIT: Final = re.compile(rb"(?:\.git|git~1)[ .]*(?::.*)?", re.IGNORECASE | re.DOTALL)
_NTFS_MODULES: Final = re.compile(
    rb"(?:\.gitmodules|gitmod~[1-4]|gi7eba~[1-9]|gi7d29~[1-9])[ .]*(?::.*)?",
    re.IGNORECASE | re.DOTALL,
)
# what only a name that needs a closer look holds: most paths are done after one search
_SUSPECT: Final = re.compile(rb"gi|\xe2|\xef|\\|(?:^|/)\.{0,2}(?:/|$)", re.IGNORECASE)


def is_git_name(name: bytes, *, symlink: bool = False) -> bool:
    """Tell whether git can hold an entry of this name in a tree."""
    if name in (b"", b".", b".."):
        return False
    if any(_NTFS_GIT.fullmatch(part) for part in name.split(b"\\")):
        return False
    if _hfs_fold(name) == ".git":
        return False
    return not (symlink and _is_modules(name))


def is_git_path(path: bytes, *, symlink: bool = False) -> bool:
    """Tell whether git can hold every component of a path."""
    if _SUSPECT.search(path) is None:
        return True
    *parents, name = path.split(b"/")
    return all(is_git_name(part) for part in parents) and is_git_name(name, symlink=symlink)


def _is_modules(name: bytes) -> bool:
    return _NTFS_MODULES.fullmatch(name) is not None or _hfs_fold(name) == ".gitmodules"


def _hfs_fold(name: bytes) -> str:
    return _HFS_IGNORED.sub("", name.decode("utf-8", "surrogateescape")).lower()
