"""Builders for tests of files on the host: real git repositories, and real volumes."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from sandbox.git.environment import make_environment
from sandbox.git.repositories import GitRepositories
from sandbox.git.workspaces import GitWorkspaces
from sandbox.snapshot import History, Snapshot
from sandbox.source import ImportedSource, Source, SourceKind


def run_git(directory: Path, *arguments: str, extra: Mapping[str, str] | None = None) -> str:
    """Run git in a work tree, as a user would, and return what it printed.

    Raises:
        CalledProcessError: it failed.
    """
    environment = {**make_environment(), "GIT_OPTIONAL_LOCKS": "0", **(extra or {})}
    done = subprocess.run(
        ["git", *arguments], cwd=directory, env=environment, check=True, capture_output=True
    )
    return done.stdout.decode("utf-8", "surrogateescape").rstrip("\n")


class ExampleRepository:
    """A user's repository, made of the files that a test names."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(parents=True)
        self.git("init", "--quiet", "--initial-branch=main")

    def git(self, *arguments: str) -> str:
        """Run git in it."""
        return run_git(self.path, *arguments)

    def commit(self, files: Mapping[str, bytes] | None = None) -> str:
        """Write files, commit all that is there, return the commit's id."""
        for name, content in (files or {}).items():
            path = self.path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        self.git("add", "--all", "--force")
        self.git("commit", "--quiet", "--allow-empty", "--message=change")
        return self.git("rev-parse", "HEAD")

    def source(self, *, ref: str = "HEAD", history: History = History.FULL) -> Source:
        """Name it as a source."""
        return Source(kind=SourceKind.PATH, location=str(self.path), ref=ref, history=history)


class GitBench:
    """A home, its repositories and workspaces, and one imported example."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.example = ExampleRepository(root / "example")
        self.repositories = GitRepositories(root / "home")
        owner = (1000, 1000) if os.geteuid() == 0 else (os.getuid(), os.getgid())
        self.workspaces = GitWorkspaces(self.repositories, owner=owner)

    def start(
        self, files: Mapping[str, bytes] | None = None, *, history: History = History.FULL
    ) -> Snapshot:
        """Commit files in the example, import it, and return the start snapshot."""
        self.example.commit(files)
        imported = self.import_example(history=history)
        return self.workspaces.start_snapshot(imported, task_id="t1")

    def import_example(
        self, *, ref: str = "HEAD", history: History = History.FULL
    ) -> ImportedSource:
        """Import the example."""
        return self.repositories.import_source(self.example.source(ref=ref, history=history))

    def volume(self, name: str = "volume") -> Path:
        """Return an empty directory that stands for a mounted volume."""
        path = self.root / name
        path.mkdir()
        return path

    def git_inside(self, workspace: Path, snapshot: Snapshot, *arguments: str) -> str:
        """Run git as the agent would, with the base repository where its container has it."""
        base = self.repositories.base_repository(
            snapshot.repository_id, snapshot.base_commit, snapshot.history
        )
        extra = {
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": str(base / "objects"),
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": "safe.directory",
            "GIT_CONFIG_VALUE_0": str(workspace),
        }
        return run_git(workspace, *arguments, extra=extra)

    def snapshots(self, snapshot: Snapshot) -> Path:
        """Return the snapshots repository."""
        return self.repositories.snapshots_repository(snapshot.repository_id)
