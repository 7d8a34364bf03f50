"""Imports a tar or zip file as one commit; nothing of it is ever extracted on the host.

All members are judged first; then their bytes go straight into `git fast-import`. The commit
depends on names, modes and bytes alone. Where everything lies in one folder named like the
archive, as in a release's `name-1.0.tar.gz`, that folder is left away.
"""

from __future__ import annotations

import lzma
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final, Protocol, Self

from sandbox.errors import SourceError
from sandbox.git.fetching import BASE_REF
from sandbox.git.names import is_git_name
from sandbox.git.stream import FastImport, quote_path
from sandbox.git.trees import MODE_FILE, MODE_PROGRAM, MODE_SYMLINK

ARCHIVE_TIME_SECONDS: Final = 946684800  # 2000-01-01: zip files, and wheels, know nothing earlier

_LINK_BYTES: Final = 4096  # PATH_MAX
_PATH_BYTES: Final = 4096
_ANY_EXECUTES: Final = 0o111
_CHUNK_BYTES: Final = 1024 * 1024
_NAME_HEADER_BYTES: Final = 1024 * 1024
_NAME_HEADERS: Final = (
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
)
_SUFFIXES: Final = (".gz", ".bz2", ".xz", ".tgz", ".tbz2", ".txz", ".tar", ".zip", ".whl")
_FOREIGN: Final = (
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    RuntimeError,
    NotImplementedError,
    OSError,
    ValueError,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveLimits:
    """What an archive may hold."""

    members: int = 500_000
    file_bytes: int = 512 * 1024 * 1024
    total_bytes: int = 4 * 1024 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One file or link of an archive."""

    path: bytes
    mode: int
    """As in a git tree."""
    size: int
    link: bytes = b""
    """Target of a symlink."""
    same_as: bytes = b""
    """Path of the earlier member that a hard link repeats."""
    number: int
    """Where it stands in the archive."""


class Archive(Protocol):
    """An open archive."""

    def members(self) -> Iterator[Member]:
        """Yield files and links in order, each judged by its kind; folders are passed over."""
        ...

    def open_member(self, number: int) -> IO[bytes]:
        """Return the bytes of a file."""
        ...


class ArchiveImporter:
    """Turns one archive into one commit."""

    def __init__(self, path: Path, limits: ArchiveLimits) -> None:
        self._path = path
        self._shown = str(path)
        self._limits = limits

    def write(self, stream: FastImport) -> str:
        """Write the commit to the base ref and return its id.

        Raises:
            SourceError: it is no archive, or holds what must not be imported.
            RepositoryError, DiskFullError: our repository cannot take it.
        """
        with self._opened() as archive:
            members = self._judged(archive)
            skipped = self._common_folder(members)
            oids = self._write_blobs(stream, archive, members)
            stream.write(b"commit %s\nmark :1\n" % BASE_REF.encode())
            when = b"<forkyard@localhost> %d +0000\n" % ARCHIVE_TIME_SECONDS
            stream.write(b"author Forkyard %scommitter Forkyard %s" % (when, when))
            stream.write(b"data 16\nImported archive\n")
            for member in members:
                place = quote_path(member.path[skipped:])
                stream.write(b"M %o %s %s\n" % (member.mode, oids[member.path].encode(), place))
            commit = stream.ask(b"\nget-mark :1\n").decode("ascii")
            stream.finish()
            return commit

    @contextmanager
    def _opened(self) -> Iterator[Archive]:
        if not self._path.is_file():
            raise SourceError(self._shown, "there is no such file")
        with self._translated():
            is_zip = zipfile.is_zipfile(self._path)
        if is_zip:
            with self._translated():
                opened = zipfile.ZipFile(self._path)
            with opened:
                yield _Zip(opened, self._shown)
            return
        with self._translated():
            tar = tarfile.open(self._path, errorlevel=1, tarinfo=_CappedTarInfo)  # noqa: SIM115 - closed below
        with tar:
            yield _Tar(tar, self._shown)

    def _judged(self, archive: Archive) -> list[Member]:
        members: list[Member] = []
        kinds: dict[bytes, bool] = {}
        total = 0
        with self._translated():
            for member in archive.members():
                total += member.size
                self._check_size(len(members) + 1, member.size, total)
                self._check_path(member.path)
                self._check_place(member, kinds)
                members.append(member)
        if not members:
            raise SourceError(self._shown, "it holds no files")
        return members

    def _check_size(self, count: int, size: int, total: int) -> None:
        limits = self._limits
        if count > limits.members:
            raise SourceError(self._shown, f"it has more than {limits.members} members")
        if size > limits.file_bytes:
            raise SourceError(self._shown, f"a file in it has more than {limits.file_bytes} bytes")
        if total > limits.total_bytes:
            raise SourceError(self._shown, f"it unpacks to more than {limits.total_bytes} bytes")

    def _check_path(self, path: bytes) -> None:
        parts = path.replace(b"\\", b"/").split(b"/")
        bad = len(path) > _PATH_BYTES or b"\0" in path or not all(map(is_git_name, parts))
        if bad:
            raise SourceError(
                self._shown,
                f"member {path!r} has a name that must not be imported"
                " (absolute, with .., or with a .git component)",
            )

    def _check_place(self, member: Member, kinds: dict[bytes, bool]) -> None:
        """Refuse a path that comes twice, also as file here and folder there."""
        parts = member.path.split(b"/")
        for length in range(1, len(parts)):
            if kinds.setdefault(b"/".join(parts[:length]), True) is False:
                raise SourceError(self._shown, f"member {member.path!r} lies below a file")
        if member.path in kinds:
            raise SourceError(self._shown, f"member {member.path!r} appears twice")
        if member.same_as and kinds.get(member.same_as) is not False:
            raise SourceError(
                self._shown, f"member {member.path!r} is a hard link to nothing before it"
            )
        kinds[member.path] = False

    def _common_folder(self, members: Iterable[Member]) -> int:
        """Return how many bytes of each path name the archive's own folder."""
        name = self._path.name
        while (suffix := Path(name).suffix) in _SUFFIXES:
            name = name.removesuffix(suffix)
        prefix = name.encode() + b"/"
        return len(prefix) if all(one.path.startswith(prefix) for one in members) else 0

    def _write_blobs(
        self, stream: FastImport, archive: Archive, members: Iterable[Member]
    ) -> dict[bytes, str]:
        oids: dict[bytes, str] = {}
        for member in members:
            if member.same_as:
                oids[member.path] = oids[member.same_as]
            elif member.mode == MODE_SYMLINK:
                oids[member.path] = stream.put_bytes(member.link)
            else:
                with self._translated(), archive.open_member(member.number) as file:
                    chunks = self._exactly(file, member)
                    oids[member.path] = stream.put_chunks(member.size, chunks)
        return oids

    def _exactly(self, file: IO[bytes], member: Member) -> Iterator[bytes]:
        """Yield as many bytes as the member claims; fewer or more are refused."""
        left = member.size
        while left:
            chunk = file.read(min(left, _CHUNK_BYTES))
            if not chunk:
                raise SourceError(self._shown, f"member {member.path!r} is cut off")
            left -= len(chunk)
            yield chunk
        if file.read(1):
            raise SourceError(self._shown, f"member {member.path!r} is longer than it says")

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except _FOREIGN as error:
            raise SourceError(
                self._shown, f"it cannot be read as a tar or zip file: {error}"
            ) from error


class _CappedTarInfo(tarfile.TarInfo):
    """Refuses headers whose names would be read into memory without a limit."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        info = super().frombuf(buf, encoding, errors)
        if info.type in _NAME_HEADERS and info.size > _NAME_HEADER_BYTES:
            raise tarfile.ReadError(f"a name header of {info.size} bytes")
        return info


class _Tar:
    def __init__(self, archive: tarfile.TarFile, shown: str) -> None:
        self._archive = archive
        self._shown = shown
        self._infos: list[tarfile.TarInfo] = []
        self._modes: dict[bytes, int] = {}

    def members(self) -> Iterator[Member]:
        for info in self._archive:
            if info.isdir():
                continue
            self._infos.append(info)
            member = self._member(info, _clean(info.name))
            self._modes[member.path] = member.mode
            yield member

    def open_member(self, number: int) -> IO[bytes]:
        file = self._archive.extractfile(self._infos[number])  # reads; writes nothing
        if file is None:
            raise SourceError(self._shown, f"member {self._infos[number].name!r} is no file")
        return file

    def _member(self, info: tarfile.TarInfo, path: bytes) -> Member:
        number = len(self._infos) - 1
        if info.isreg() and not info.issparse():
            mode = MODE_PROGRAM if info.mode & _ANY_EXECUTES else MODE_FILE
            return Member(path=path, mode=mode, size=info.size, number=number)
        if info.issym():
            link = info.linkname.encode("utf-8", "surrogateescape")
            return _link_member(self._shown, path, link, number)
        if info.islnk():
            first = _clean(info.linkname)
            mode = self._modes.get(first, MODE_FILE)
            return Member(path=path, mode=mode, size=0, same_as=first, number=number)
        raise SourceError(self._shown, f"member {path!r} is a device, pipe or sparse file")


class _Zip:
    def __init__(self, archive: zipfile.ZipFile, shown: str) -> None:
        self._archive = archive
        self._shown = shown
        self._infos: list[zipfile.ZipInfo] = []

    def members(self) -> Iterator[Member]:
        for info in self._archive.infolist():
            if info.is_dir():
                continue
            self._infos.append(info)
            yield self._member(info, _clean(info.orig_filename))

    def open_member(self, number: int) -> IO[bytes]:
        return self._archive.open(self._infos[number])

    def _member(self, info: zipfile.ZipInfo, path: bytes) -> Member:
        number = len(self._infos) - 1
        unix_mode = info.external_attr >> 16
        kind = stat.S_IFMT(unix_mode)
        if kind == stat.S_IFLNK:
            if info.file_size > _LINK_BYTES:
                raise SourceError(self._shown, f"the target of link {path!r} is too long")
            return _link_member(self._shown, path, self._archive.read(info), number)
        if kind not in (0, stat.S_IFREG):
            raise SourceError(self._shown, f"member {path!r} is a device, pipe or folder")
        mode = MODE_PROGRAM if unix_mode & _ANY_EXECUTES else MODE_FILE
        return Member(path=path, mode=mode, size=info.file_size, number=number)


def _link_member(shown: str, path: bytes, link: bytes, number: int) -> Member:
    if not link or len(link) > _LINK_BYTES or b"\0" in link:
        raise SourceError(shown, f"the target of link {path!r} cannot be one")
    return Member(path=path, mode=MODE_SYMLINK, size=len(link), link=link, number=number)


def _clean(name: str) -> bytes:
    """Return a member's name in bytes, without the leading `./` that tar writes."""
    path = name.encode("utf-8", "surrogateescape")
    while path.startswith(b"./"):
        path = path[2:]
    return path
