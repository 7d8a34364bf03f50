"""Our own repositories: one per base commit for containers to mount, one per source for snapshots.

    repos/<sha256 of source>/base/<commit>.git           only what the commit reaches, one ref
    repos/<sha256 of source>/base/<commit>.shallow.git   the commit alone
    repos/<sha256 of source>/base/<commit>.ignore/       the commit's ignore files
    repos/<sha256 of source>/snapshots.git               borrows from the base repositories

A base repository is built under a temporary name and renamed when it is whole, so one that has
its name can be trusted. One lock file per source keeps threads and processes apart.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from sandbox.errors import SnapshotError, SourceError
from sandbox.git.archives import ArchiveImporter, ArchiveLimits
from sandbox.git.base import (
    BaseTree,
    IgnoreRules,
    read_base_tree,
    write_ignore_files,
)
from sandbox.git.environment import DEFAULT_PATH, make_environment
from sandbox.git.failures import translated_os_errors
from sandbox.git.fetching import Origin, SourceFetcher
from sandbox.git.included import IncludedFiles, Inclusion, find_included_parent
from sandbox.git.locations import COMMIT_ID, check_url, repository_id
from sandbox.git.locks import hold_lock
from sandbox.git.names import is_git_path
from sandbox.git.notes import list_notes, read_notes, write_notes
from sandbox.git.objects import ObjectReader
from sandbox.git.process import Git
from sandbox.git.stream import FastImport
from sandbox.git.trees import MODE_SYMLINK
from sandbox.git.user_files import CheckoutLimits
from sandbox.git.user_repository import UserRepository
from sandbox.snapshot import CommitId, History, RepositoryId
from sandbox.source import ImportedSource, Source, SourceKind

_BUILDING: Final = ".building-"
_SHALLOW: Final = ".shallow.git"
_HAS_RULES: Final = ".forkyard-has-rules"
_OLD_SECONDS: Final = 86_400  # no writer lets its pack lie so long
_READABLE_FILE: Final = 0o444
_READABLE_FOLDER: Final = 0o555


class GitRepositories:
    """Imports sources and says where their repositories are."""

    def __init__(
        self,
        home: Path,
        *,
        path: str = DEFAULT_PATH,
        archive_limits: ArchiveLimits | None = None,
        checkout_limits: CheckoutLimits | None = None,
    ) -> None:
        """Remember where things go; nothing is made yet.

        Args:
            home: `$FORKYARD_HOME`.
            path: the directories that git is looked up in.
            archive_limits: what an archive may hold.
            checkout_limits: how much of a checkout may be included.
        """
        environment = make_environment(path)
        self.git = Git(environment)
        self._fetcher = SourceFetcher(environment)
        self._repos = home / "repos"
        self._archive_limits = archive_limits or ArchiveLimits()
        self._checkout_limits = checkout_limits or CheckoutLimits()

    def import_source(self, source: Source) -> ImportedSource:
        """Bring a source's base commit into a repository of ours; idempotent.

        Raises:
            SourceError: the location, ref or archive cannot be used; says what to do.
            RepositoryError, DiskFullError: our own repositories cannot be written.
        """
        if source.kind is SourceKind.ARCHIVE:
            return self._import_archive(source)
        origin = self._find_origin(source)
        repository = repository_id(source.kind.value, origin.canonical)
        if source.include:
            return self._import_included(source, origin, repository)
        with self._locked(repository):
            target = self.base_repository(repository, origin.commit, source.history)
            if not target.exists():
                with self._building(target) as building:
                    self._fetcher.fetch(origin, into=building, history=source.history)
                    self._publish_base(building, target, origin.commit, shown=origin.shown)
            self._connect(repository, target)
        return ImportedSource(
            repository_id=repository,
            commit=origin.commit,
            history=source.history,
            notes=read_notes(target),
        )

    def base_repository(
        self, repository: RepositoryId, commit: CommitId, history: History
    ) -> Path:
        """Return the bare repository that a container of this base mounts, read-only.

        Raises:
            SnapshotError: the ids are not such.
        """
        _check_ids(repository, commit)
        kind = _SHALLOW if history is History.SHALLOW else ".git"
        return self._repos / repository / "base" / f"{commit}{kind}"

    def snapshots_repository(self, repository: RepositoryId) -> Path:
        """Return the bare repository of a source's snapshots; no container ever mounts it."""
        _check_ids(repository)
        return self._repos / repository / "snapshots.git"

    def list_repositories(self) -> list[RepositoryId]:
        """Return the ids of all sources that have a snapshots repository."""
        found = sorted(self._repos.glob("*/snapshots.git"))
        return [RepositoryId(path.parent.name) for path in found]

    @contextmanager
    def locked(self, repository: RepositoryId) -> Iterator[None]:
        """Keep all others from changing a source's repositories and worktree entries."""
        _check_ids(repository)
        with self._locked(repository):
            yield

    @contextmanager
    def writing(self, repository: RepositoryId, ref: str) -> Iterator[FastImport]:
        """Open a stream into `snapshots.git` as the only writer of a ref."""
        target = self.snapshots_repository(repository)
        with hold_lock(self._repos / repository / "locks" / ref.replace("/", ".")) as lock:
            # git inherits our lock: while it lives, nobody takes its ref's lock file for stale
            (target / f"{ref}.lock").unlink(missing_ok=True)
            with FastImport(self.git, target, keep_open=(lock,)) as stream:
                yield stream

    def tidy(self, repository: RepositoryId, *, packs_kept: int = 150) -> bool:
        """Join the packs of many snapshots, each of which left one; safe while tasks live.

        Halves of packs, and locks, that a killed process left are deleted once a day old.

        Args:
            repository: whose `snapshots.git`.
            packs_kept: up to so many packs nothing is done.

        Returns:
            Whether there was something to do.

        Raises:
            RepositoryError, DiskFullError: git failed; all objects are still there.
        """
        target = self.snapshots_repository(repository)
        _remove_old_halves(target / "objects" / "pack")
        if len(list((target / "objects" / "pack").glob("*.pack"))) <= packs_kept:
            return False
        with hold_lock(self._repos / repository / "locks" / "tidy"):
            self.git.run(target, ["repack", "-d", "--quiet", "--geometric=2", "--write-midx"])
        return True

    def open_reader(self, repository: RepositoryId) -> ObjectReader:
        """Open a reader of snapshots and of the bases that they borrow from.

        Raises:
            SnapshotError: the source was never imported here.
        """
        target = self.snapshots_repository(repository)
        if not target.is_dir():
            raise SnapshotError(f"repository {repository} is not on this host; import it first")
        return ObjectReader(self.git, target)

    def find_users_commit(self, repository: RepositoryId, base: CommitId) -> CommitId:
        """Return the commit of the user's that a base is, or that a base of ours lies on.

        Raises:
            RepositoryError: the base is missing.
        """
        with self.open_reader(repository) as reader:
            return find_included_parent(reader.get(base).read()) or base

    def ignore_rules(
        self, repository: RepositoryId, base: BaseTree, reader: ObjectReader
    ) -> IgnoreRules:
        """Return the ignore rules of a base, writing their folder where it is missing."""
        folder = self._repos / repository / "base" / f"{base.commit}.ignore"
        if not folder.exists():
            with self._locked(repository), self._building(folder, bare=False) as building:
                if not folder.exists():
                    rules = building / "rules"
                    if write_ignore_files(reader, base, rules):
                        (building / _HAS_RULES).touch()
                    building.rename(folder)
        return IgnoreRules(
            self.git,
            repository=self.snapshots_repository(repository),
            folder=folder / "rules",
            has_rules=(folder / _HAS_RULES).exists(),
        )

    def _find_origin(self, source: Source) -> Origin:
        if source.kind is SourceKind.PATH:
            return self._fetcher.find_in_path(source.location, source.ref)
        return self._fetcher.find_at_url(check_url(source.location), source.ref)

    def _import_archive(self, source: Source) -> ImportedSource:
        path = Path(os.path.realpath(source.location))
        repository = repository_id(source.kind.value, str(path))
        importer = ArchiveImporter(path, self._archive_limits)
        with self._locked(repository):
            unnamed = self._repos / repository / "base" / "archive"
            with self._building(unnamed) as building:
                with FastImport(self.git, building) as stream:
                    commit = CommitId(importer.write(stream))
                target = self.base_repository(repository, commit, source.history)
                if not target.exists():
                    self._publish_base(building, target, commit, shown=str(path))
            self._connect(repository, target)
        return ImportedSource(
            repository_id=repository,
            commit=commit,
            history=source.history,
            notes=read_notes(target),
        )

    def _import_included(
        self, source: Source, origin: Origin, repository: RepositoryId
    ) -> ImportedSource:
        """Import the commit that is checked out, and one of ours with what it does not hold."""
        shown = origin.shown
        inclusion = Inclusion.parse(source.include, shown=shown)
        if source.kind is not SourceKind.PATH:
            raise SourceError(shown, "only a `path` has files to include")
        if self._fetcher.find_in_path(source.location, "HEAD").commit != origin.commit:
            raise SourceError(shown, f"{source.ref!r} is not checked out, so `include` needs HEAD")
        user = UserRepository(self.git, source.location)
        included = IncludedFiles(user, inclusion, shown=shown, limits=self._checkout_limits)
        with self._locked(repository):
            unnamed = self._repos / repository / "base" / "included"
            with self._building(unnamed) as building:
                self._fetcher.fetch(origin, into=building, history=source.history)
                with ObjectReader(self.git, building) as reader:
                    base = read_base_tree(reader, origin.commit)
                with FastImport(self.git, building) as stream:
                    commit, notes = included.write(stream, base, git=self.git, building=building)
                target = self.base_repository(repository, commit, source.history)
                if not target.exists():
                    whole = self._cut(building, origin, commit, history=source.history)
                    self._publish_base(whole, target, commit, shown=shown)
            self._connect(repository, target)
        return ImportedSource(
            repository_id=repository,
            commit=commit,
            history=source.history,
            notes=(*notes, *read_notes(target)),
        )

    def _cut(self, building: Path, origin: Origin, commit: CommitId, *, history: History) -> Path:
        """Return a repository where nothing but the commit of ours is, if the past is hidden."""
        if history is History.FULL or commit == origin.commit:
            return building
        alone = building.with_name(building.name + ".alone")
        self._fetcher.make_bare(alone)
        ours = replace(origin, address=str(building), commit=commit, ref="", owned_paths=())
        self._fetcher.fetch(ours, into=alone, history=history)
        return alone

    @contextmanager
    def _locked(self, repository: RepositoryId) -> Iterator[None]:
        with translated_os_errors("locking a repository"):
            lock = hold_lock(self._repos / repository / "lock")
            lock.__enter__()
        try:
            yield
        finally:
            lock.__exit__(None, None, None)

    @contextmanager
    def _building(self, target: Path, *, bare: bool = True) -> Iterator[Path]:
        """Make a place for something new; what was not renamed away is deleted."""
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        for dead in target.parent.glob(f"{_BUILDING}*"):  # we hold the lock: nobody uses them
            shutil.rmtree(dead, ignore_errors=True)
        place = Path(tempfile.mkdtemp(prefix=_BUILDING, dir=target.parent))
        building = place / target.name
        try:
            if bare:
                self._fetcher.make_bare(building)
            else:
                building.mkdir()
            yield building
        finally:
            shutil.rmtree(place, ignore_errors=True)

    def _publish_base(self, building: Path, target: Path, commit: CommitId, *, shown: str) -> None:
        """Give a base repository its name, unless git itself would not check its tree out."""
        with ObjectReader(self.git, building) as reader:
            base = read_base_tree(reader, commit)
            for path, entry in base.paths.items():
                if not is_git_path(path, symlink=entry.mode == MODE_SYMLINK):
                    raise SourceError(shown, f"its commit holds {path!r}, which no git checks out")
            is_cut = (building / "shallow").exists() and not target.name.endswith(_SHALLOW)
            write_notes(target, list_notes(reader, base, is_cut=is_cut))
        _publish(building, target)

    def _connect(self, repository: RepositoryId, base: Path) -> None:
        """Let `snapshots.git` borrow from a base repository."""
        snapshots = self.snapshots_repository(repository)
        if not snapshots.exists():
            with self._building(snapshots) as building:
                building.rename(snapshots)
        alternates = snapshots / "objects" / "info" / "alternates"
        line = f"../../base/{base.name}/objects\n"
        known = alternates.read_text() if alternates.exists() else ""
        if line not in known.splitlines(keepends=True):
            alternates.parent.mkdir(exist_ok=True)
            fresh = alternates.with_name("alternates.new")
            with fresh.open("w") as file:
                file.write(known + line)
                file.flush()
                os.fsync(file.fileno())
            fresh.rename(alternates)
            _sync_directory(alternates.parent)


def _publish(building: Path, target: Path) -> None:
    """Make a repository readable for any uid that mounts it, durable, and known by its name."""
    for place in (building, *building.rglob("*")):
        mode = stat.S_IMODE(place.lstat().st_mode)
        place.chmod(mode | (_READABLE_FOLDER if place.is_dir() else _READABLE_FILE))
    building.rename(target)
    _sync_directory(target.parent)


def _remove_old_halves(packs: Path) -> None:
    for half in (*packs.glob("tmp_*"), *packs.glob("*.lock")):
        with suppress(FileNotFoundError):  # its writer was quicker
            if half.stat().st_mtime < time.time() - _OLD_SECONDS:
                half.unlink()


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _check_ids(repository: str, commit: str = "0" * 40) -> None:
    if len(repository) != 64 or not repository.isalnum() or not COMMIT_ID.fullmatch(commit):
        raise SnapshotError(f"{repository!r} and {commit!r} name no repository of ours")
