"""A released source archive as files in memory, and repositories made from two of them."""

from __future__ import annotations

import os
import subprocess
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

_IGNORED = b"\n*.egg-info/\n*.py[co]\n.pytest_cache/\n__pycache__/\n"  # left by the tests' own run
_DATE = "2023-05-01T00:00:00Z"  # fixed: the same files give the same commit everywhere


@dataclass(frozen=True, slots=True)
class ReleaseFile:
    """One regular file of an archive."""

    data: bytes
    executable: bool = False


Release = Mapping[str, ReleaseFile]
"""Files by path below the archive's only folder."""


def read_release(archive: Path) -> Release:
    """Read the regular files of a .tar.gz; links and anything outside its folder are left out."""
    files: dict[str, ReleaseFile] = {}
    with tarfile.open(archive, "r:gz") as tar:
        for member in tar:
            path = PurePosixPath(member.name)
            stream = tar.extractfile(member) if member.isreg() else None
            if stream is None or path.is_absolute() or ".." in path.parts or len(path.parts) < 2:
                continue
            name = str(PurePosixPath(*path.parts[1:]))
            files[name] = ReleaseFile(stream.read(), bool(member.mode & 0o100))
    return files


def make_repository(folder: Path, older: Release, newer: Release, *, title: str) -> None:
    """Make a git repository: the older release, then the newer one's tests laid over it."""
    git = _Git(folder)
    folder.mkdir(parents=True)
    git.run("init", "--quiet", "--template=", "--initial-branch=main")
    ignored = older.get(".gitignore", ReleaseFile(b"")).data + _IGNORED
    _write(folder, {**older, ".gitignore": ReleaseFile(ignored)})
    git.commit(f"{title}, as released")
    for name in older:
        if is_test(name):
            (folder / name).unlink()
    _write(folder, {name: file for name, file in newer.items() if is_test(name)})
    git.commit("Bring the tests of the next release")


def is_test(name: str) -> bool:
    """Tell whether a path is below tests/."""
    return name.startswith("tests/")


def _write(folder: Path, files: Release) -> None:
    for name, file in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(file.data)
        path.chmod(0o755 if file.executable else 0o644)


@dataclass(frozen=True, slots=True)
class _Git:
    """git with nothing of the user's environment or configuration."""

    folder: Path

    def commit(self, message: str) -> None:
        self.run("add", "--all")
        self.run("commit", "--quiet", "--message", message)

    def run(self, *arguments: str) -> None:
        who = {"NAME": "Forkyard demo", "EMAIL": "demo@forkyard.invalid", "DATE": _DATE}
        identity = {
            f"GIT_{role}_{key}": value
            for role in ("AUTHOR", "COMMITTER")
            for key, value in who.items()
        }
        environment = {
            "PATH": os.environ["PATH"],
            "LC_ALL": "C",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            **identity,
        }
        subprocess.run(
            ["git", "-c", "core.autocrlf=false", "-c", "gc.auto=0", *arguments],
            cwd=self.folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            check=True,
        )
