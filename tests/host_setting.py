"""One implementation of SandboxHost with a source that it can import, for contract suites."""

from __future__ import annotations

import secrets
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from sandbox_builders import OWNER, find_image, make_spec

from sandbox import SandboxHost, SandboxSpec, Snapshot, Source, SourceKind
from sandbox.docker.engine import Engine
from sandbox.docker.host import DockerSandboxHost
from sandbox.git.repositories import GitRepositories
from sandbox.git.workspaces import GitWorkspaces
from sandbox.testing import MemorySandboxHost

FILES = {
    "README.md": b"hello\n",
    "src/one.py": b"ONE = 1\n",
    "tests/test_one.py": b"assert True\n",
    ".gitignore": b"*.log\nbuild/\n",
}


@dataclass(frozen=True)
class Setting:
    """One implementation with a source that it can import."""

    host: SandboxHost
    source: Source
    image: str

    def start(self, task_id: str = "t1") -> Snapshot:
        return self.host.start_snapshot(self.host.import_source(self.source), task_id=task_id)

    def spec(self, **changes: object) -> SandboxSpec:
        task_id = f"t{secrets.token_hex(4)}"
        values = {"task_id": task_id, "start": self.start(task_id), **changes}
        return make_spec(**{"image": self.image, **values})


def twin_of(location: Path) -> Path:
    """Return where a second source with the very same commit is."""
    return location.with_name(location.name + "-twin")


def make_memory_setting(location: Path) -> Setting:
    places = {str(location): FILES, str(twin_of(location)): FILES}
    host = MemorySandboxHost(places, images=["python"])
    return Setting(host, _make_source(location), host.resolve_image("python"))


def make_docker_setting(location: Path, *, engine: Engine, home: Path) -> Setting:
    make_repository(location)
    shutil.copytree(location, twin_of(location))
    return Setting(make_docker_host(engine, home), _make_source(location), find_image(engine))


def make_docker_host(engine: Engine, home: Path) -> DockerSandboxHost:
    repositories = GitRepositories(home)
    return DockerSandboxHost(
        engine=engine,
        workspaces=GitWorkspaces(repositories, owner=OWNER),
        repositories=repositories,
        home=home,
        instance_id=f"test{secrets.token_hex(4)}",
        owner=OWNER,
    )


def make_repository(location: Path) -> None:
    for name, data in FILES.items():
        (location / name).parent.mkdir(parents=True, exist_ok=True)
        (location / name).write_bytes(data)
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    for arguments in (["init", "-q"], ["add", "."], [*identity, "commit", "-qm", "one"]):
        subprocess.run(["git", *arguments], cwd=location, check=True)


def _make_source(location: Path) -> Source:
    return Source(kind=SourceKind.PATH, location=str(location))
