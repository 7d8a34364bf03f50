"""Fetches base commits from the user's repositories, through GitPython's command layer.

GitPython passes our process's own `GIT_*` variables on, and its `Repo` obeys some of them
(GIT_COMMON_DIR, GIT_OBJECT_DIRECTORY). So each command starts through `env -i` with our
environment, no `Repo` is opened, and no process outlives its call.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import git

from sandbox.errors import RepositoryError, SourceError
from sandbox.git.failures import show_stderr
from sandbox.git.locations import COMMIT_ID, check_ref
from sandbox.git.process import Finished
from sandbox.snapshot import CommitId, History

BASE_REF: Final = "refs/forkyard/base"
FETCH_SECONDS: Final = 3600
"""How long a fetch may take: enough for a large repository, an end for a server that stalls."""

_ASK_SECONDS: Final = 120  # all but a fetch: a few lines of answer
_TIMED_OUT: Final = (124, 137)  # exit status of coreutils' timeout(1), also after its SIGKILL
_KILL_AFTER_SECONDS: Final = 5
_DEEPEN: Final = "; it is a shallow clone: `git fetch --unshallow` brings the rest"
_COMPLETE: Final = (
    "it is a partial clone without some objects, and none are fetched behind your back;"
    " run `git fetch --refetch --no-filter` in it"
)
_HOP_REF: Final = "refs/forkyard/hop"


@dataclass(frozen=True, slots=True)
class Origin:
    """A commit in somebody's repository."""

    shown: str
    """What to call it in messages."""
    address: str
    """What `git fetch` reads from."""
    canonical: str
    """The source's canonical name."""
    commit: CommitId
    ref: str = ""
    """The full ref that leads to the commit, for servers that only hand out refs."""
    owned_paths: tuple[str, ...] = ()
    """Paths of a local repository, which may belong to somebody else than us."""


class SourceFetcher:
    """Finds and fetches commits."""

    def __init__(
        self, environment: Mapping[str, str], *, limit_seconds: int = FETCH_SECONDS
    ) -> None:
        self._environment = environment
        self._limit_seconds = limit_seconds

    def find_in_path(self, location: str, ref: str) -> Origin:
        """Resolve a ref in a repository, or linked worktree, on this host.

        Raises:
            SourceError: no repository, no commit yet, or no such ref.
        """
        check_ref(location, ref)
        path = Path(location)
        if not path.is_dir():
            raise SourceError(location, "there is no such directory")
        real = Path(os.path.realpath(path))
        trusted = (str(real), str(real / ".git"))
        asked = ["--path-format=absolute", "--git-common-dir", "--git-dir"]
        answer = self._run(
            [*_safe(trusted), "-C", str(real), "rev-parse", *asked], ceiling=str(real.parent)
        )
        if answer.exit_code != 0:
            said = show_stderr(answer.stderr)
            raise SourceError(location, f"it is not a git repository ({said}); run `git init`")
        common, directory = (os.path.realpath(os.fsdecode(p)) for p in answer.stdout.splitlines())
        owned = (*trusted, common, directory)
        commit = self._resolve(real, ref, owned, shown=location)
        return Origin(location, common, common, commit, "", owned)

    def find_at_url(self, url: str, ref: str) -> Origin:
        """Resolve a ref of a repository behind a checked URL.

        Raises:
            SourceError: it cannot be reached, is empty, or has no such ref.
        """
        check_ref(url, ref)
        if COMMIT_ID.fullmatch(ref):
            return Origin(url, url, url, CommitId(ref))
        answer = self._run(["ls-remote", "--quiet", "--", url])
        if answer.exit_code != 0:
            raise SourceError(url, f"it cannot be read: {show_stderr(answer.stderr)}")
        advertised = _parse_advertised(answer.stdout)
        if not advertised:
            raise SourceError(url, "it has no commits yet; push one first")
        for name in _meanings(ref):
            oid = advertised.get(f"{name}^{{}}") or advertised.get(name)
            if oid is not None:
                return Origin(url, url, url, CommitId(oid), name)
        raise SourceError(url, f"it has no branch or tag {ref!r}; for a commit give all 40 digits")

    def fetch(self, origin: Origin, *, into: Path, history: History) -> None:
        """Bring the commit, and all that it reaches, into an empty repository of ours.

        Raises:
            SourceError: the other side does not hand it out.
            RepositoryError: our own repository cannot be written.
        """
        first = self._fetch(origin, f"{origin.commit}:{BASE_REF}", into=into, history=history)
        if first.exit_code == 0:
            return
        if not origin.ref:
            said = self._find_remedy(origin) or show_stderr(first.stderr)
            raise SourceError(origin.shown, f"commit {origin.commit} cannot be fetched: {said}")
        self._fetch_through_ref(origin, into=into, history=history)

    def _fetch_through_ref(self, origin: Origin, *, into: Path, history: History) -> None:
        """Fetch by name, then hand on only what the commit reaches."""
        hop = into.with_name(into.name + ".hop")
        self.make_bare(hop)
        by_name = self._fetch(origin, f"{origin.ref}:{_HOP_REF}", into=hop, history=History.FULL)
        if by_name.exit_code != 0:
            raise SourceError(origin.shown, f"fetching failed: {show_stderr(by_name.stderr)}")
        pinned = self._run([f"--git-dir={hop}", "update-ref", _HOP_REF, origin.commit])
        nearby = Origin(origin.shown, str(hop), origin.canonical, origin.commit)
        handed_on = self._fetch(nearby, f"{origin.commit}:{BASE_REF}", into=into, history=history)
        if pinned.exit_code != 0 or handed_on.exit_code != 0:
            raise SourceError(origin.shown, f"{origin.ref} moved while it was fetched; try again")

    def make_bare(self, path: Path) -> None:
        """Make an empty bare repository without hooks or other templates.

        Raises:
            RepositoryError: it cannot be made.
        """
        made = self._run(
            ["init", "--quiet", "--bare", "--template=", "--initial-branch=main", "--", str(path)]
        )
        if made.exit_code != 0:
            raise RepositoryError(f"cannot make {path}: {show_stderr(made.stderr)}")

    def _fetch(self, origin: Origin, refspec: str, *, into: Path, history: History) -> Finished:
        options = ["--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-gc"]
        options += ["--no-recurse-submodules", "--update-shallow", "--no-auto-maintenance"]
        if history is History.SHALLOW:
            options.append("--depth=1")
        if origin.owned_paths:
            # named by the user, so whose files they are does not matter; this one process only
            safe = shlex.join(["git", *_safe((*origin.owned_paths, "."))])
            options.append(f"--upload-pack={safe} upload-pack")
        return self._run(
            [f"--git-dir={into}", "fetch", *options, "--", origin.address, f"+{refspec}"],
            seconds=self._limit_seconds,
        )

    def _find_remedy(self, origin: Origin) -> str:
        """Return what to do about a clone that has not all objects; empty for any other."""
        if not origin.owned_paths:
            return ""
        asked = [
            *_safe(origin.owned_paths),
            f"--git-dir={origin.address}",
            "config",
            "--get-regexp",
        ]
        found = self._run([*asked, r"^(extensions\.partialclone|remote\..*\.promisor)$"])
        return _COMPLETE if found.exit_code == 0 else ""

    def _resolve(self, directory: Path, ref: str, owned: Sequence[str], *, shown: str) -> CommitId:
        base = [*_safe(owned), "-C", str(directory), "rev-parse", "--verify", "--quiet"]
        ceiling = str(directory.parent)
        found = self._run([*base, f"{ref}^{{commit}}"], ceiling=ceiling)
        if found.exit_code == 0:
            return CommitId(found.stdout.decode("ascii").strip())
        if ref == "HEAD":
            raise SourceError(shown, "it has no commits yet; make a first commit")
        shallow = self._run([*base[:-3], "rev-parse", "--is-shallow-repository"], ceiling=ceiling)
        deepen = _DEEPEN if shallow.stdout.strip() == b"true" else ""
        raise SourceError(shown, f"it has no branch, tag or commit {ref!r}{deepen}")

    def _run(
        self, arguments: Sequence[str], *, ceiling: str = "", seconds: int = _ASK_SECONDS
    ) -> Finished:
        """Run git, and what it starts, for a while, outside any repository it is not told of."""
        seconds = min(seconds, self._limit_seconds)
        limit = ("/usr/bin/timeout", f"--kill-after={_KILL_AFTER_SECONDS}", str(seconds))
        settings = dict(self._environment)
        if ceiling:
            settings["GIT_CEILING_DIRECTORIES"] = ceiling
        pairs = [f"{key}={value}" for key, value in settings.items()]
        status, stdout, stderr = git.cmd.Git("/").execute(
            ["/usr/bin/env", "-i", *pairs, *limit, "git", *arguments],
            with_extended_output=True,
            with_exceptions=False,
            stdout_as_string=False,
            strip_newline_in_stdout=False,
        )
        said = _as_bytes(stderr)
        if status in _TIMED_OUT:
            said += f"\nno end after {seconds} s".encode()
        return Finished(status, _as_bytes(stdout), said)


def _as_bytes(output: str | bytes | None) -> bytes:
    if isinstance(output, str):
        return output.encode("utf-8", "surrogateescape")
    return output or b""


def _safe(paths: Sequence[str]) -> list[str]:
    return [part for path in paths for part in ("-c", f"safe.directory={path}")]


def _meanings(ref: str) -> tuple[str, ...]:
    if ref == "HEAD" or ref.startswith("refs/"):
        return (ref,)
    return (f"refs/tags/{ref}", f"refs/heads/{ref}", f"refs/{ref}")


def _parse_advertised(listing: bytes) -> dict[str, str]:
    advertised: dict[str, str] = {}
    for line in listing.decode("utf-8", "replace").splitlines():
        oid, _, name = line.partition("\t")
        if COMMIT_ID.fullmatch(oid):
            advertised[name] = oid
    return advertised
