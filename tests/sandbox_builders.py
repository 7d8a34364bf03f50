"""Builders for tests of sandboxes: an engine, an image, specs, and files without git."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import docker
import pytest

from policies import Changes, Limits, Network
from sandbox import (
    Command,
    CommandResult,
    CommitId,
    History,
    ImageMissingError,
    ImportedSource,
    LaidSource,
    RepositoryId,
    SandboxError,
    SandboxHost,
    SandboxSpec,
    Snapshot,
    SnapshotId,
    SnapshotTaken,
    Source,
)
from sandbox.docker.engine import Engine, open_engine
from sandbox.docker.host import DockerSandboxHost

OWNER = (1000, 1000)
SMALL = Limits(
    memory_mib=128, cpu_thousandths=2000, pids=64, disk_mib=64, inodes=2000, open_files=256
)
PLAIN_SNAPSHOT = Snapshot(
    snapshot_id=SnapshotId("sha256:plain"),
    content_id="sha256:plain",
    repository_id=RepositoryId("plain"),
    base_commit=CommitId("0" * 40),
    commit=CommitId("0" * 40),
    source_tree="0" * 40,
    full_tree="0" * 40,
)


class PlainWorkspaces:
    """Workspaces without git for tests of containers alone: every snapshot is the same one."""

    def start_snapshot(self, source: ImportedSource, *, task_id: str) -> Snapshot:
        return PLAIN_SNAPSHOT

    @contextmanager
    def open_workspace(
        self,
        directory: Path,
        *,
        task_id: str,
        start: Snapshot,
        lay: LaidSource | None,
        register: bool,
        erase: bool,
    ) -> Iterator[PlainWorkspaces]:
        for name in ("workspace", "home", "tmp"):
            (directory / name).mkdir()
            if os.geteuid() == 0:
                os.chown(directory / name, *OWNER)
        yield self

    def prune(self, directory: Path) -> int:
        return 0

    def take_snapshot(self) -> SnapshotTaken:
        return SnapshotTaken(snapshot=PLAIN_SNAPSHOT, changes=Changes())

    def take_start(self) -> SnapshotTaken:
        return self.take_snapshot()

    def restore(self, snapshot: Snapshot) -> None:
        return

    def changes_between(self, before: Snapshot, after: Snapshot) -> Changes:
        return Changes()

    def make_patch(self, snapshot: Snapshot) -> bytes:
        return b""

    def read_source_file(self, snapshot: Snapshot, path: str) -> bytes | None:
        return None


class PlainRepositories:
    """One empty directory for every base."""

    def __init__(self, base: Path) -> None:
        self._base = base
        base.mkdir(parents=True, exist_ok=True)

    def import_source(self, source: Source) -> ImportedSource:
        return ImportedSource(
            repository_id=PLAIN_SNAPSHOT.repository_id,
            commit=PLAIN_SNAPSHOT.base_commit,
            history=History.FULL,
        )

    def base_repository(
        self, repository: RepositoryId, commit: CommitId, history: History
    ) -> Path:
        return self._base


@contextmanager
def open_test_engine() -> Iterator[Engine]:
    """Connect to the engine; without one, skip here and fail in CI."""
    try:
        with open_engine() as engine:
            yield engine
    except SandboxError as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(f"no engine: {error}")


def find_image(engine: Engine) -> str:
    """Return the id of the image for tests: the built `python` one, else the development one."""
    client = docker.DockerClient()
    try:
        tags = [tag for image in client.images.list() for tag in image.tags]
    finally:
        client.close()
    built = sorted(tag for tag in tags if tag.startswith("forkyard/python:"))
    for reference in (*built, "dev-base:latest"):
        try:
            return engine.image_facts(reference).image_id
        except ImageMissingError:
            continue
    return pytest.fail("neither forkyard/python nor dev-base is on the engine")


def make_plain_host(engine: Engine, home: Path, *, instance_id: str = "") -> DockerSandboxHost:
    """Return a host whose workspaces are plain directories."""
    return DockerSandboxHost(
        engine=engine,
        workspaces=PlainWorkspaces(),
        repositories=PlainRepositories(home / "base.git"),
        home=home,
        instance_id=instance_id or f"test{secrets.token_hex(4)}",
        owner=OWNER,
    )


def make_spec(image: str, **changes: object) -> SandboxSpec:
    """Return a small sandbox's spec; a test names only what it is about."""
    values: dict[str, object] = {
        "task_id": f"t{secrets.token_hex(4)}",
        "attempt": 1,
        "image": image,
        "start": PLAIN_SNAPSHOT,
        "limits": SMALL,
        "network": Network(),
    }
    return SandboxSpec(**{**values, **changes})  # type: ignore[arg-type]  # names are checked there


def run(sandbox: object, *argv: str, **changes: object) -> CommandResult:
    """Run a command with a short limit."""
    command = Command(argv=argv, **{"timeout_seconds": 20, **changes})  # type: ignore[arg-type]
    return sandbox.run(command)  # type: ignore[attr-defined]


def run_shell(sandbox: object, script: str, **changes: object) -> CommandResult:
    """Run a shell script with a short limit."""
    return run(sandbox, "sh", "-c", script, **changes)


def import_snapshot(host: SandboxHost, source: Source, *, task_id: str) -> Snapshot:
    """Return the snapshot that a task on a source starts from."""
    return host.start_snapshot(host.import_source(source), task_id=task_id)
