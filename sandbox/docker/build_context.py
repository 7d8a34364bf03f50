"""A build context: the files an image is built from, and the hash that names it.

What is hashed is what is sent: names, kinds, the executable bit and bytes, never times or owners.
"""

from __future__ import annotations

import hashlib
import stat
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from docker.utils.build import exclude_paths

from sandbox.errors import SourceError

_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class ContextEntry:
    """One file, link or directory of a context."""

    name: str
    """Relative to the context, with forward slashes."""
    path: Path
    """Where it is on this host."""

    @property
    def mode(self) -> int:
        """Type and permission bits; the link's own for a link."""
        return self.path.lstat().st_mode


@dataclass(frozen=True, slots=True)
class BuildContext:
    """The entries of a folder less what its .dockerignore leaves out, ordered by name."""

    entries: tuple[ContextEntry, ...]

    @classmethod
    def of_folder(cls, folder: Path) -> BuildContext:
        """List a folder.

        Raises:
            SourceError: there is no readable Dockerfile in it, or it holds a device or a socket.
        """
        if not (folder / "Dockerfile").is_file():
            raise SourceError(str(folder), "it holds no Dockerfile")
        names = sorted(exclude_paths(str(folder), _ignore_patterns(folder), "Dockerfile"))
        entries = tuple(ContextEntry(Path(name).as_posix(), folder / name) for name in names)
        for entry in entries:
            if _kind(entry.mode) is None:
                raise SourceError(str(entry.path), "neither a file, a link nor a directory")
        return cls(entries)

    def digest(self, *extra: bytes) -> str:
        """Return the SHA-256 over all entries and the extra inputs, in hexadecimal.

        Raises:
            SourceError: a file cannot be read.
        """
        total = hashlib.sha256()
        for part in extra:
            total.update(hashlib.sha256(part).digest())
        for entry in self.entries:
            total.update(_entry_digest(entry))
        return total.hexdigest()

    def dockerfile(self) -> str:
        """Return the text of the Dockerfile."""
        entry = next(one for one in self.entries if one.name == "Dockerfile")
        return entry.path.read_text(encoding="utf-8", errors="replace")

    def write_tar(self, stream: IO[bytes], *, wheels: Path | None = None) -> None:
        """Write the context as a tar archive, and downloaded wheels below `wheels/`."""
        with tarfile.open(fileobj=stream, mode="w") as archive:
            for entry in self.entries:
                _add(archive, entry)
            for wheel in sorted(wheels.iterdir()) if wheels else ():
                _add(archive, ContextEntry(f"wheels/{wheel.name}", wheel))


def _ignore_patterns(folder: Path) -> list[str]:
    ignore = folder / ".dockerignore"
    if not ignore.is_file():
        return []
    lines = (line.strip() for line in ignore.read_text(encoding="utf-8").splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def _kind(mode: int) -> bytes | None:
    if stat.S_ISLNK(mode):
        return tarfile.SYMTYPE
    if stat.S_ISDIR(mode):
        return tarfile.DIRTYPE
    return tarfile.REGTYPE if stat.S_ISREG(mode) else None


def _permissions(mode: int) -> int:
    return 0o755 if mode & 0o111 else 0o644


def _entry_digest(entry: ContextEntry) -> bytes:
    mode = entry.mode
    hasher = hashlib.sha256()
    hasher.update(f"{_kind(mode)!r} {_permissions(mode):o} {len(entry.name)} ".encode())
    hasher.update(entry.name.encode("utf-8", "surrogateescape"))
    if stat.S_ISLNK(mode):
        hasher.update(str(entry.path.readlink()).encode("utf-8", "surrogateescape"))
    elif stat.S_ISREG(mode):
        _hash_file(hasher, entry.path)
    return hasher.digest()


def _hash_file(hasher: hashlib._Hash, path: Path) -> None:
    try:
        with path.open("rb") as file:
            while chunk := file.read(_CHUNK_BYTES):
                hasher.update(chunk)
    except OSError as error:
        raise SourceError(str(path), error.strerror or "cannot be read") from error


def _add(archive: tarfile.TarFile, entry: ContextEntry) -> None:
    mode = entry.mode
    member = tarfile.TarInfo(entry.name)
    member.type = _kind(mode) or tarfile.REGTYPE
    member.mode = _permissions(mode)
    if member.issym():
        member.linkname = str(entry.path.readlink())
    if not member.isreg():
        archive.addfile(member)
        return
    member.size = entry.path.stat().st_size
    with entry.path.open("rb") as file:
        archive.addfile(member, file)
