"""The base commit's tree: which paths it tracks and what its ignore rules say."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sandbox.errors import SnapshotError
from sandbox.git.failures import make_git_failure
from sandbox.git.names import is_git_path
from sandbox.git.objects import ObjectReader
from sandbox.git.process import Git
from sandbox.git.trees import MODE_FILE, MODE_GITLINK, MODE_PROGRAM, TreeEntry

_IGNORE_FILE: Final = b".gitignore"
_NOTHING_IGNORED: Final = 1  # exit status of git check-ignore
_IGNORE_FILE_BYTES: Final = 1024 * 1024
_JUDGING_SECONDS: Final = 120.0  # half a million paths, a hundred patterns: 15 s (measured)


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseTree:
    """What the task started from."""

    commit: str
    tree: str
    committed_at_seconds: int
    """The commit's committer time, since 1970."""
    paths: Mapping[bytes, TreeEntry]
    """Every tracked path, gitlinks included."""
    gitlinks: frozenset[bytes]

    def tracks(self, path: bytes) -> bool:
        """Tell whether the base has a file or link of that path."""
        return path in self.paths

    def is_git_link_or_below(self, path: bytes) -> bool:
        """Tell whether a path is a submodule's place or lies inside one."""
        return bool(self.gitlinks) and any(link in self.gitlinks for link in _prefixes(path))

    def links_freed(
        self, *, gone: AbstractSet[bytes], present: AbstractSet[bytes]
    ) -> Iterator[bytes]:
        """Yield the submodules above which a file went away and no other came.

        Args:
            gone: files that are not there any more, or not as they were.
            present: files that came, or are not as they were.
        """
        for link in self.gitlinks:
            above = set(_prefixes(link)) - {link}
            if not above.isdisjoint(gone) and above.isdisjoint(present):
                yield link


def read_base_tree(reader: ObjectReader, commit: str) -> BaseTree:
    """Read the tree of a base commit.

    Raises:
        RepositoryError: the commit or a part of its tree is missing.
    """
    tree, committed_at = parse_commit(reader.get(commit).read())
    paths = reader.walk_tree(tree)
    return BaseTree(
        commit=commit,
        tree=tree,
        committed_at_seconds=committed_at,
        paths=paths,
        gitlinks=frozenset(p for p, entry in paths.items() if entry.mode == MODE_GITLINK),
    )


def parse_commit(body: bytes) -> tuple[str, int]:
    """Return tree id and committer time of a commit object."""
    tree = ""
    committed_at = 0
    for line in body.split(b"\n\n", 1)[0].split(b"\n"):
        key, _, value = line.partition(b" ")
        if key == b"tree":
            tree = value.decode("ascii")
        elif key == b"committer":
            committed_at = int(value.split(b" ")[-2])
    return tree, committed_at


class IgnoreRules:
    """The ignore rules of a base tree, in a folder of ours that holds nothing else.

    The agent's own ignore files have no say, and no git process looks at its tree.
    """

    def __init__(
        self,
        git: Git,
        *,
        repository: Path,
        folder: Path,
        has_rules: bool,
        excludes: Path | None = None,
        limit_seconds: float = _JUDGING_SECONDS,
    ) -> None:
        self._limit_seconds = limit_seconds
        self._git = git
        self._repository = repository
        self._folder = folder
        self._has_rules = has_rules
        self._excludes = excludes

    def ignored_among(self, paths: Iterable[bytes]) -> frozenset[bytes]:
        """Return those of some workspace paths of files that the rules leave out.

        Raises:
            RepositoryError: git could not judge them.
            SnapshotError: it did not in time: a pattern can take git exponentially long.
        """
        asked = [b"./" + path for path in paths]  # so that none is taken for pathspec magic
        if not asked or not self._has_rules:
            return frozenset()
        more = ["-c", f"core.excludesFile={self._excludes}"] if self._excludes else []
        arguments = [
            *more,
            f"--work-tree={self._folder}",
            "-C",
            str(self._folder),
            "check-ignore",
            "--no-index",
            "-z",
            "--stdin",
        ]
        try:
            finished = self._git.attempt(
                self._repository,
                arguments,
                stdin=b"\0".join(asked) + b"\0",
                limit_seconds=self._limit_seconds,
            )
        except TimeoutError as error:
            raise SnapshotError(
                f"the base's ignore rules cannot judge {len(asked)} new paths"
                f" in {self._limit_seconds:g} s"
            ) from error
        if finished.exit_code not in (0, _NOTHING_IGNORED):
            raise make_git_failure(["check-ignore"], finished.stderr)
        return frozenset(path[2:] for path in finished.stdout.split(b"\0") if path)


def write_ignore_files(reader: ObjectReader, base: BaseTree, folder: Path) -> bool:
    """Write the base's ignore files, and nothing else, into a new folder of ours.

    Returns:
        Whether there is any.
    """
    rules = [
        (path, entry.oid)
        for path, entry in sorted(base.paths.items())
        if path.split(b"/")[-1] == _IGNORE_FILE
        and entry.mode in (MODE_FILE, MODE_PROGRAM)
        and is_git_path(path)
    ]
    blobs = zip(rules, reader.each([oid for _, oid in rules]), strict=True)
    write_rules({path: blob.read() for (path, _), blob in blobs}, folder)
    return bool(rules)


def write_rules(contents: Mapping[bytes, bytes], folder: Path) -> None:
    """Write ignore files, by their paths, into a new folder of ours."""
    folder.mkdir(parents=True)
    for path, content in contents.items():
        target = folder / os.fsdecode(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content[:_IGNORE_FILE_BYTES])


def _prefixes(path: bytes) -> Iterable[bytes]:
    at = path.find(b"/")
    while at != -1:
        yield path[:at]
        at = path.find(b"/", at + 1)
    yield path
