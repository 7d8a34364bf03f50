"""Makes a commit of ours from what a user's checkout has and no commit holds, as far as named.

The commit lies on the commit that is checked out and depends on its files alone. The user's files
are read by us: no git process looks at them, so that no filter, hook or monitor of theirs runs.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from policies import Glob, GlobError, parse_glob, show_path
from sandbox.errors import SourceError
from sandbox.git.base import BaseTree, IgnoreRules, write_rules
from sandbox.git.fetching import BASE_REF
from sandbox.git.process import Git
from sandbox.git.stream import FastImport, quote_path
from sandbox.git.trees import (
    MODE_GITLINK,
    MODE_SYMLINK,
    TreeEntry,
    blob_id,
    new_blob_hash,
)
from sandbox.git.user_files import CheckoutLimits, FoundFile, UserFiles
from sandbox.git.user_index import IndexedFile, stamp_of
from sandbox.git.user_repository import UserRepository
from sandbox.snapshot import CommitId

INCLUDED_MESSAGE: Final = b"Files that were not committed"
UNCOMMITTED: Final = "uncommitted"
UNTRACKED: Final = "untracked"

_NAME: Final = b"Forkyard <forkyard@localhost>"
_WHOLE_BYTES: Final = 1024 * 1024
_RULES_BYTES: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Inclusion:
    """What to take, as the user named it."""

    uncommitted: bool
    """Tracked files as they are, staged or not; deletions too."""
    untracked: bool
    """New files that nothing ignores."""
    globs: tuple[Glob, ...]
    """Files that are taken although they are ignored."""

    @classmethod
    def parse(cls, words: Iterable[str], *, shown: str) -> Inclusion:
        """Read the words of a source.

        Raises:
            SourceError: one of them is no glob.
        """
        names = list(words)
        try:
            globs = tuple(parse_glob(one) for one in names if one not in (UNCOMMITTED, UNTRACKED))
        except GlobError as error:
            raise SourceError(shown, f"include: {error}") from error
        return cls(UNCOMMITTED in names, UNTRACKED in names, globs)

    def names(self, path: bytes) -> bool:
        """Tell whether one of the globs names a path."""
        return any(glob.matches(path) for glob in self.globs)


@dataclass(slots=True)
class Taken:
    """What a commit of ours changes, and what was passed over."""

    removed: set[bytes] = field(default_factory=set)
    written: dict[bytes, TreeEntry] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


class IncludedFiles:
    """Reads one checkout for one commit."""

    def __init__(
        self, user: UserRepository, inclusion: Inclusion, *, shown: str, limits: CheckoutLimits
    ) -> None:
        self._user = user
        self._inclusion = inclusion
        self._shown = shown
        self._limits = limits
        self._total_bytes = 0

    def write(
        self, stream: FastImport, base: BaseTree, *, git: Git, building: Path
    ) -> tuple[CommitId, tuple[str, ...]]:
        """Write the commit to the base ref; where nothing differs the base's own stays.

        Args:
            stream: into the repository that holds the base commit.
            base: the commit that is checked out.
            git: judges ignore rules.
            building: that repository.

        Returns:
            The commit, and what was passed over.

        Raises:
            SourceError: a file is too large, cannot be read, or keeps changing.
            RepositoryError, DiskFullError: our repository cannot take it.
        """
        with self._opened() as files:
            taken = self._take(files, stream, base, rules=(git, building))
        if not taken.removed and not taken.written:
            return CommitId(base.commit), tuple(taken.notes)
        return _write_commit(stream, base, taken), tuple(taken.notes)

    @contextmanager
    def _opened(self) -> Iterator[UserFiles]:
        try:
            root = os.open(self._user.find_checkout(), os.O_RDONLY | os.O_DIRECTORY)
            try:
                yield UserFiles(root, self._shown, self._limits)
            finally:
                os.close(root)
        except OSError as error:
            problem = f"its checkout cannot be read ({error}); is it being changed? try again"
            raise SourceError(self._shown, problem) from error

    def _take(
        self, files: UserFiles, stream: FastImport, base: BaseTree, *, rules: tuple[Git, Path]
    ) -> Taken:
        index = self._user.read_index()
        wanted = self._inclusion
        whole = wanted.untracked or bool(wanted.globs)
        tracked = frozenset(_folders_of(index))
        found = files.walk(tracked=tracked, whole=whole)
        reading = _Reading(self, files, stream, base, found)
        if wanted.uncommitted:
            for path in sorted(base.paths.keys() | index.keys()):
                reading.take_tracked(path, index.get(path))
        if whole:
            others = sorted(path for path in found if path not in index)
            ignored = self._list_ignored(files, found, others, rules)
            for path in others:
                if wanted.names(path) or (wanted.untracked and path not in ignored):
                    reading.take_new(path)
        return reading.taken

    def _list_ignored(
        self,
        files: UserFiles,
        found: Mapping[bytes, FoundFile],
        others: list[bytes],
        rules: tuple[Git, Path],
    ) -> frozenset[bytes]:
        """Judge new files by the checkout's ignore files, in a folder of ours."""
        git, building = rules
        # a closed folder is listed itself, and `x/` ignores only what lies below it
        asked = {path + b"/x" if found[path].is_folder else path: path for path in others}
        with tempfile.TemporaryDirectory(dir=building.parent) as place:
            folder = Path(place) / "rules"
            contents = {
                path: _read_capped(files, path)
                for path, one in found.items()
                if path.rpartition(b"/")[2] == b".gitignore" and _is_file(one)
            }
            write_rules(contents, folder)
            excludes = Path(place) / "excludes"
            excludes.write_bytes(self._user.read_excludes())
            judge = IgnoreRules(
                git, repository=building, folder=folder, has_rules=True, excludes=excludes
            )
            return frozenset(asked[path] for path in judge.ignored_among(asked))

    def count(self, size: int, path: bytes, files: UserFiles) -> None:
        """Add to what is taken; too much is refused naming the file that is one too many."""
        self._total_bytes += size
        if self._total_bytes > self._limits.total_bytes:
            raise files.refuse(path, f"would be over {self._limits.total_bytes} bytes in all")


@dataclass(slots=True)
class _Reading:
    """One pass over a checkout."""

    owner: IncludedFiles
    files: UserFiles
    stream: FastImport
    base: BaseTree
    found: Mapping[bytes, FoundFile]
    taken: Taken = field(default_factory=Taken)

    def take_tracked(self, path: bytes, indexed: IndexedFile | None) -> None:
        """Take a path of the base or the index as it is in the checkout."""
        old = self.base.paths.get(path)
        here = self.found.get(path)
        modes = {one.mode for one in (old, indexed.entry if indexed else None) if one}
        if MODE_GITLINK in modes:
            if old is None:
                self._note(path, "a submodule that is not committed")
        elif indexed is not None and indexed.skipped and here is None:
            return  # outside a sparse checkout: as the commit has it
        elif here is None or indexed is None or here.problem:
            if here is not None and here.problem:
                self._note(path, here.problem)
            if old is not None:
                self.taken.removed.add(path)
        elif indexed.entry != old or stamp_of(here.status) != indexed.stamp:
            self._read(path, here, known=indexed.entry)

    def take_new(self, path: bytes) -> None:
        """Take a path that the index does not have."""
        here = self.found[path]
        if here.problem:
            self._note(path, here.problem)
        else:
            self._read(path, here, known=None)

    def _read(self, path: bytes, here: FoundFile, *, known: TreeEntry | None) -> None:
        """Send a file's bytes, unless they are what the base has."""
        old = self.base.paths.get(path)
        if here.mode == MODE_SYMLINK:
            target = self.files.read_link(path)
            self._put(path, TreeEntry(here.mode, blob_id(target)), target)
            return
        with self.files.opened(path) as descriptor:
            size = os.fstat(descriptor).st_size
            if size > _WHOLE_BYTES:
                self._stream(path, (descriptor, size), here.mode)
                return
            data = os.read(descriptor, size + 1)
        if len(data) != size:
            raise self.files.refuse(path, "changes while it is read; try again")
        plain = data.replace(b"\r\n", b"\n")
        if plain != data and blob_id(plain) in {one.oid for one in (known, old) if one}:
            data = plain  # git has put the CRs in at checkout
        self._put(path, TreeEntry(here.mode, blob_id(data)), data)

    def _put(self, path: bytes, entry: TreeEntry, data: bytes) -> None:
        if entry != self.base.paths.get(path):
            self.owner.count(len(data), path, self.files)
            self.stream.put_bytes(data)
            self.taken.written[path] = entry
        self.taken.removed.discard(path)

    def _stream(self, path: bytes, content: tuple[int, int], mode: int) -> None:
        descriptor, size = content
        running = new_blob_hash(size)
        for chunk in self.files.read_exactly(path, descriptor, size):
            running.update(chunk)
        entry = TreeEntry(mode, running.hexdigest())
        if entry != self.base.paths.get(path):
            self.owner.count(size, path, self.files)
            os.lseek(descriptor, 0, os.SEEK_SET)
            chunks = self.files.read_exactly(path, descriptor, size)
            if self.stream.put_chunks(size, chunks) != entry.oid:
                raise self.files.refuse(path, "changes while it is read; try again")
            self.taken.written[path] = entry
        self.taken.removed.discard(path)

    def _note(self, path: bytes, problem: str) -> None:
        self.taken.notes.append(f"{show_path(path)}: not included: {problem}")


def _write_commit(stream: FastImport, base: BaseTree, taken: Taken) -> CommitId:
    who = b"%s %d +0000\n" % (_NAME, base.committed_at_seconds)
    stream.write(b"commit %s\nmark :1\n" % BASE_REF.encode())
    stream.write(b"author %scommitter %s" % (who, who))
    stream.write(b"data %d\n%s\n" % (len(INCLUDED_MESSAGE), INCLUDED_MESSAGE))
    stream.write(b"from %s\n" % base.commit.encode())
    for path in sorted(taken.removed):
        stream.write(b"D %s\n" % quote_path(path))
    for path, entry in sorted(taken.written.items()):
        stream.write(b"M %o %s %s\n" % (entry.mode, entry.oid.encode(), quote_path(path)))
    commit = stream.ask(b"\nget-mark :1\n").decode("ascii")
    stream.finish()
    return CommitId(commit)


def find_included_parent(body: bytes) -> CommitId | None:
    """Return the user's commit that one of ours lies on; None for any other commit."""
    header, _, message = body.partition(b"\n\n")
    lines = header.split(b"\n")
    ours = message == INCLUDED_MESSAGE and lines[-1].startswith(b"committer " + _NAME)
    parents = [line.removeprefix(b"parent ") for line in lines if line.startswith(b"parent ")]
    return CommitId(parents[0].decode("ascii")) if ours and len(parents) == 1 else None


def _folders_of(paths: Iterable[bytes]) -> Iterator[bytes]:
    seen: set[bytes] = set()
    for path in paths:
        above = path.rpartition(b"/")[0]
        while above and above not in seen:
            seen.add(above)
            yield above
            above = above.rpartition(b"/")[0]


def _is_file(one: FoundFile) -> bool:
    return not one.problem and not one.is_folder and one.mode != MODE_SYMLINK


def _read_capped(files: UserFiles, path: bytes) -> bytes:
    with files.opened(path) as descriptor:
        return os.read(descriptor, _RULES_BYTES)
