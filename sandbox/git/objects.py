"""Reads git objects in bulk through one `git cat-file`."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import IO, Final, Self

from sandbox.errors import RepositoryError
from sandbox.git.failures import show_stderr
from sandbox.git.process import Git, stop_process
from sandbox.git.trees import MODE_TREE, TreeEntry, parse_tree

_CHUNK_BYTES: Final = 1024 * 1024
_ASKED_AT_ONCE: Final = 128  # about 7 KB: fits a pipe, so asking never waits for answers


@dataclass(frozen=True, slots=True)
class GitObject:
    """An object under way; its bytes can be read until the next one is asked for."""

    kind: str
    """blob, tree, commit or tag."""
    oid: str
    size: int
    chunks: Iterator[bytes]

    def read(self) -> bytes:
        """Return all bytes."""
        return b"".join(self.chunks)


class ObjectReader:
    """Reads objects of one repository. A context manager; used by one thread at a time."""

    def __init__(self, git: Git, repository: Path) -> None:
        self._repository = repository
        self._complaints: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        self._unread = 0
        self._process = git.start(
            repository, ["cat-file", "--batch-command", "--buffer"], stderr=self._complaints
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the process."""
        stop_process(self._process)
        self._complaints.close()

    def find(self, name: str) -> GitObject | None:
        """Return the object of that name, or None where there is none."""
        self._ask("contents", [name])
        return self._answer()

    def get(self, name: str) -> GitObject:
        """Return the object of that name.

        Raises:
            RepositoryError: there is none.
        """
        found = self.find(name)
        if found is None:
            raise RepositoryError(f"{self._repository}: object {name} is missing")
        return found

    def each(self, oids: Iterable[str]) -> Iterator[GitObject]:
        """Yield many objects in the order asked for.

        Raises:
            RepositoryError: one of them is missing.
        """
        waiting = iter(oids)
        while asked := list(islice(waiting, _ASKED_AT_ONCE)):
            self._ask("contents", asked)
            for oid in asked:
                yield self._expect(oid, self._answer())

    def sizes(self, oids: Iterable[str]) -> dict[str, int]:
        """Return the sizes of many objects without reading them."""
        sizes: dict[str, int] = {}
        waiting = iter(oids)
        while asked := list(islice(waiting, _ASKED_AT_ONCE)):
            self._ask("info", asked)
            for oid in asked:
                header = self._header()
                if header is None:
                    raise RepositoryError(f"{self._repository}: object {oid} is missing")
                sizes[oid] = header[2]
        return sizes

    def tree(self, oid: str) -> dict[bytes, TreeEntry]:
        """Return the entries of one tree."""
        return parse_tree(self.get(oid).read())

    def walk_tree(self, oid: str) -> dict[bytes, TreeEntry]:
        """Return every path below a tree that is not itself a tree, and its entry."""
        found: dict[bytes, TreeEntry] = {}
        level = [(b"", oid)]
        while level:
            bodies = (one.read() for one in self.each([tree for _, tree in level]))
            below: list[tuple[bytes, str]] = []
            for (prefix, _), body in zip(level, bodies, strict=True):
                for name, entry in parse_tree(body).items():
                    if entry.mode == MODE_TREE:
                        below.append((prefix + name + b"/", entry.oid))
                    else:
                        found[prefix + name] = entry
            level = below
        return found

    def _expect(self, oid: str, found: GitObject | None) -> GitObject:
        if found is None:
            raise RepositoryError(f"{self._repository}: object {oid} is missing")
        return found

    def _ask(self, command: str, names: list[str]) -> None:
        stdin = self._process.stdin
        assert stdin is not None  # noqa: S101 - opened as a pipe
        lines = "".join(f"{command} {name}\n" for name in names)
        try:
            stdin.write(lines.encode() + b"flush\n")
            stdin.flush()
        except BrokenPipeError as error:
            raise self._broken() from error

    def _header(self) -> tuple[str, str, int] | None:
        while self._unread:  # what the last object's reader did not want
            self._take()
        line = self._stdout.readline()
        if not line.endswith(b"\n"):
            raise self._broken()
        parts = line.decode("ascii", "replace").split()
        if len(parts) != 3:  # `<name> missing`, `<name> ambiguous`
            return None
        return parts[1], parts[0], int(parts[2])

    def _answer(self) -> GitObject | None:
        header = self._header()
        if header is None:
            return None
        kind, oid, size = header
        self._unread = size + 1  # a newline follows each object
        return GitObject(kind, oid, size, self._chunks())

    def _chunks(self) -> Iterator[bytes]:
        while self._unread > 1:
            yield self._take(all_but=1)

    def _take(self, *, all_but: int = 0) -> bytes:
        chunk = self._stdout.read(min(self._unread - all_but, _CHUNK_BYTES))
        if not chunk:
            raise self._broken()
        self._unread -= len(chunk)
        return chunk

    @property
    def _stdout(self) -> IO[bytes]:
        stdout = self._process.stdout
        assert stdout is not None  # noqa: S101 - opened as a pipe
        return stdout

    def _broken(self) -> RepositoryError:
        self._complaints.seek(0)
        said = show_stderr(self._complaints.read())
        return RepositoryError(f"{self._repository}: git cat-file ended early: {said}")
