"""A repository of the user: read with plumbing, written only by adding objects and one new ref."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from sandbox.errors import BranchExistsError, SourceError
from sandbox.git.failures import show_stderr
from sandbox.git.process import Git
from sandbox.git.user_excludes import read_excludes
from sandbox.git.user_index import LISTING, IndexedFile, parse_listing
from sandbox.snapshot import CommitId

NO_COMMIT: Final = "0" * 40
"""Old value of a ref that must not exist yet: git-update-ref(1)."""

ASK_SECONDS: Final = 600.0
"""How long git may take in a user's repository: enough to index a large pack."""

_NAMES: Final = ("-z", "--name-only", "--no-renames", "--no-ext-diff", "--ignore-submodules=none")


class UserRepository:
    """Knows its place, and the checkout that the user named. No hook of it ever runs."""

    def __init__(self, git: Git, location: str, *, limit_seconds: float = ASK_SECONDS) -> None:
        """Find the repository.

        Args:
            git: how git is started.
            location: what the user named.
            limit_seconds: how long one answer may take: a pipe in the place of a file blocks git.

        Raises:
            SourceError: there is none.
        """
        self._location = location
        self._limit_seconds = limit_seconds
        self._git = git
        self._path = Path(os.path.realpath(location))
        checkout = self._path / ".git"
        self._trusted = _trust(str(self._path), str(checkout))
        self._own = checkout if checkout.exists() else self._path
        common = self._look("--git-common-dir", failure="it is not a git repository")
        self._directory = Path(common)
        self._trusted += _trust(common)

    def find_checkout(self) -> Path:
        """Return the root of the checkout that the user named.

        Raises:
            SourceError: the repository has none, or has it elsewhere.
        """
        root = self._look("--show-toplevel", failure="it has no checkout")
        if os.path.realpath(root) != str(self._path):
            raise SourceError(self._location, f"its checkout is elsewhere, in {root!r}")
        return self._path

    def list_moved(self, base: CommitId) -> frozenset[bytes]:
        """Return the paths in which the checkout's HEAD differs from a commit.

        Raises:
            SourceError: one of the two is missing.
        """
        asked = ["diff-tree", "-r", *_NAMES, base, "HEAD", "--"]
        return self._list(asked, failure=f"HEAD cannot be compared with the base commit {base}")

    def list_staged(self) -> frozenset[bytes]:
        """Return the paths in which the checkout's index differs from its HEAD.

        Raises:
            SourceError: there is no HEAD, or the index cannot be read.
        """
        asked = ["diff-index", "--cached", *_NAMES, "HEAD", "--"]
        return self._list(asked, failure="its index cannot be compared with HEAD")

    def read_index(self) -> dict[bytes, IndexedFile]:
        """Return what the checkout's index holds; no file of the checkout is looked at.

        Raises:
            SourceError: it cannot be read.
        """
        asked = ["-C", str(self._path), *LISTING]
        listed = parse_listing(self._ask(self._own, asked, failure="its index cannot be read"))
        written_at = self._index_time()
        return {path: one.trusted_before(written_at) for path, one in listed.items()}

    def read_excludes(self) -> bytes:
        """Return what is ignored here without an ignore file in the checkout."""
        return read_excludes(self._git, self._directory, trusted=self._trusted)

    def _index_time(self) -> int:
        index = Path(self._look("--git-dir", failure="it is not a git repository")) / "index"
        try:
            return index.stat().st_mtime_ns
        except FileNotFoundError:
            return 0

    def require_commit(self, commit: CommitId) -> None:
        """Refuse a repository that has lost the base commit."""
        if not self.has_commit(commit):
            raise SourceError(self._location, f"it does not have the base commit {commit}")

    def has_commit(self, commit: CommitId) -> bool:
        """Tell whether a commit is there."""
        asked = [*self._trusted, "cat-file", "-e", f"{commit}^{{commit}}"]
        return self._git.attempt(self._directory, asked).exit_code == 0

    def take_pack(self, pack: bytes) -> None:
        """Add the pack's objects."""
        asked = ["index-pack", "--stdin", "--strict"]
        self._ask(self._directory, asked, failure="it does not take the objects", stdin=pack)

    def require_free(self, branch: str) -> None:
        """Refuse the name of a branch that exists."""
        asked = [*self._trusted, "show-ref", "--verify", "--quiet", f"refs/heads/{branch}"]
        if self._git.attempt(self._directory, asked).exit_code == 0:
            raise BranchExistsError(self._location, branch)

    def create_branch(self, branch: str, commit: CommitId) -> None:
        """Create the branch where there is none of that name."""
        asked = ["update-ref", f"refs/heads/{branch}", commit, NO_COMMIT]
        failure = f"branch {branch!r} cannot be made"
        self._ask(self._directory, asked, failure=failure)

    def _look(self, asked: str, *, failure: str) -> str:
        whole = ["-C", str(self._path), "rev-parse", "--path-format=absolute", asked]
        return os.fsdecode(self._ask(self._own, whole, failure=failure).rstrip(b"\n"))

    def _list(self, asked: Sequence[str], *, failure: str) -> frozenset[bytes]:
        listed = self._ask(self._own, ["-C", str(self._path), *asked], failure=failure)
        return frozenset(path for path in listed.split(b"\0") if path)

    def _ask(
        self, directory: Path, arguments: Sequence[str], *, failure: str, stdin: bytes = b""
    ) -> bytes:
        asked = [*self._trusted, *arguments]
        try:
            done = self._git.attempt(
                directory, asked, stdin=stdin, limit_seconds=self._limit_seconds
            )
        except TimeoutError as error:
            problem = f"{failure} (git gave no answer in {self._limit_seconds:g} s)"
            raise SourceError(self._location, problem) from error
        if done.exit_code != 0:
            raise SourceError(self._location, f"{failure} ({show_stderr(done.stderr)})")
        return done.stdout


def _trust(*paths: str) -> list[str]:
    return [part for path in paths for part in ("-c", f"safe.directory={path}")]
