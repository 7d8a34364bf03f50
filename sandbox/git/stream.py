"""Writes snapshots through one durable `git fast-import` each."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Final, Self

from sandbox.errors import DiskFullError, SandboxError, SnapshotError
from sandbox.git.failures import make_git_failure
from sandbox.git.process import Git, stop_process
from sandbox.git.trees import new_blob_hash

_ARGUMENTS: Final = (
    "-c",
    "fastimport.unpackLimit=1",
    "-c",
    "core.fsync=all",
    "fast-import",
    "--quiet",
    "--force",
    "--done",
)
_CHUNK_BYTES: Final = 1024 * 1024
_KEPT_FREE_BYTES: Final = 512 * 1024 * 1024
_LOOK_BYTES: Final = 32 * 1024 * 1024  # how much is sent between two looks at the room left
_HALF_PACK: Final = "tmp_pack_"  # git's odb_mkstemp
_PLAIN: Final = frozenset(range(0x20, 0x7F)) - frozenset(b'"\\')


def quote_path(path: bytes) -> bytes:
    """Return a path as fast-import reads it, whatever bytes it has."""
    inside = b"".join(bytes((c,)) if c in _PLAIN else b"\\%03o" % c for c in path)
    return b'"' + inside + b'"'


def read_exactly(descriptor: int, size: int) -> Iterator[bytes]:
    """Yield the next `size` bytes of a file in pieces.

    Raises:
        SnapshotError: the file has fewer bytes.
    """
    left = size
    while left:
        chunk = os.read(descriptor, min(left, _CHUNK_BYTES))
        if not chunk:
            raise SnapshotError("a file became shorter while it was read")
        left -= len(chunk)
        yield chunk


class FastImport:
    """One fast-import, started when the first byte is written.

    A context manager: leaving it without `finish` ends the process, changes no ref and leaves no
    half of a pack.
    """

    def __init__(
        self,
        git: Git,
        repository: Path,
        *,
        keep_open: Sequence[int] = (),
        kept_free_bytes: int = _KEPT_FREE_BYTES,
    ) -> None:
        self.kept_free_bytes = kept_free_bytes
        """Room of the host's that no task's files may take: the store and others need it."""
        self._unlooked_bytes = _LOOK_BYTES
        self._git = git
        self._repository = repository
        self._keep_open = keep_open
        self._process: subprocess.Popen[bytes] | None = None
        self._complaints: IO[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process is not None:
            half_packs = _list_half_packs(self._process)
            stop_process(self._process)
            for path in half_packs:
                path.unlink(missing_ok=True)
            report = self._repository / f"fast_import_crash_{self._process.pid}"
            report.unlink(missing_ok=True)
        if self._complaints is not None:
            self._complaints.close()

    def put_bytes(self, data: bytes) -> str:
        """Store a blob and return its id."""
        self.write(b"blob\ndata %d\n" % len(data))
        self.write(data)
        self.write(b"\n")
        blob = new_blob_hash(len(data))
        blob.update(data)
        return blob.hexdigest()

    def put_file(self, descriptor: int, size: int) -> str:
        """Store the next `size` bytes of a file as a blob and return its id.

        Raises:
            SnapshotError: the file has fewer bytes; this stream cannot be used any more.
        """
        return self.put_chunks(size, read_exactly(descriptor, size))

    def put_chunks(self, size: int, chunks: Iterable[bytes]) -> str:
        """Store a blob that comes in pieces, `size` bytes together, and return its id."""
        self.write(b"blob\ndata %d\n" % size)
        blob = new_blob_hash(size)
        for chunk in chunks:
            self.write(chunk)
            blob.update(chunk)
        self.write(b"\n")
        return blob.hexdigest()

    def write(self, data: bytes) -> None:
        """Send commands or data.

        Raises:
            RepositoryError: fast-import ended early.
            DiskFullError: it did so for want of room, or what is kept free would be taken.
        """
        self._look_for_room(len(data))
        stdin = self._started().stdin
        assert stdin is not None  # noqa: S101 - opened as a pipe
        try:
            stdin.write(data)
        except BrokenPipeError as error:
            raise self._broken() from error

    def ask(self, question: bytes) -> bytes:
        """Send a question (`get-mark`, `ls`) and return the one line it answers.

        Raises:
            RepositoryError, DiskFullError: fast-import ended early.
        """
        self.write(question)
        process = self._started()
        assert process.stdin is not None  # noqa: S101 - opened as a pipe
        assert process.stdout is not None  # noqa: S101 - opened as a pipe
        try:
            process.stdin.flush()
        except BrokenPipeError as error:
            raise self._broken() from error
        line: bytes = process.stdout.readline()
        if not line.endswith(b"\n"):
            raise self._broken()
        return line.rstrip(b"\n")

    def finish(self) -> None:
        """Make all that was sent durable and move the refs.

        Raises:
            RepositoryError, DiskFullError: it failed; the refs are as before.
        """
        self.write(b"done\n")
        process = self._started()
        assert process.stdin is not None  # noqa: S101 - opened as a pipe
        try:
            process.stdin.close()
        except BrokenPipeError as error:
            raise self._broken() from error
        if process.wait() != 0:
            raise self._broken()

    def _look_for_room(self, size_bytes: int) -> None:
        self._unlooked_bytes += size_bytes
        if self._unlooked_bytes < _LOOK_BYTES:
            return
        self._unlooked_bytes = 0
        room = os.statvfs(self._repository)
        if room.f_bavail * room.f_frsize < self.kept_free_bytes:
            kept = f"the {self.kept_free_bytes} bytes that are kept free"
            raise DiskFullError(f"{self._repository}: no room but {kept}")

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            self._complaints = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
            self._process = self._git.start(
                self._repository, _ARGUMENTS, stderr=self._complaints, keep_open=self._keep_open
            )
            assert self._process.stdin is not None  # noqa: S101 - opened as a pipe
            self._process.stdin.write(b"feature done\n")
        return self._process

    def _broken(self) -> SandboxError:
        assert self._process is not None  # noqa: S101 - only a started one can break
        assert self._complaints is not None  # noqa: S101 - as above
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=10)
        self._complaints.seek(0)
        return make_git_failure(["fast-import"], self._complaints.read())


def _list_half_packs(process: subprocess.Popen[bytes]) -> list[Path]:
    """Return the packs that a living fast-import is at: it alone knows their names."""
    if process.poll() is not None:
        return []
    opened: list[Path] = []
    with suppress(OSError):  # it ended meanwhile
        for link in Path(f"/proc/{process.pid}/fd").iterdir():
            with suppress(OSError):
                opened.append(link.readlink())
    return [path for path in opened if path.name.startswith(_HALF_PACK)]
