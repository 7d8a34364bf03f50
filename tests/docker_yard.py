"""A whole runner in memory but for its sandboxes, which are real: a test names the script."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from host_setting import make_docker_host, make_repository
from run_builders import Yard
from sandbox_builders import find_image

from runner.domain.task import RepositorySpec
from sandbox import SandboxHost
from sandbox.docker.engine import Engine

SMALL_POLICY = """\
version: 1
name: small
sandbox:
  limits: {memory_mib: 256, cpus: 1, pids: 64, disk_mib: 64, inodes: 2000, open_files: 256,
           call_seconds: 20}
"""


def make_docker_yard(
    *turns: Sequence[Mapping[str, Any]],
    folder: Path,
    engine: Engine,
    host: SandboxHost | None = None,
    policy: str = SMALL_POLICY,
    **spec: Any,
) -> Yard:
    """Return a yard on a small repository with a host of the given engine.

    Args:
        folder: empty; takes the repository, the policy and the host's home.
        host: another than the plain one.
    """
    if not (folder / "source").exists():
        make_repository(folder / "source")
    (folder / "small.yaml").write_text(policy)
    docker_host = host or make_docker_host(engine, folder / "home")
    values = {
        "repo": RepositorySpec(kind="path", location=str(folder / "source")),
        "image": spec.pop("image", None) or find_image(engine),
        "policy": str(folder / "small.yaml"),
        "verify": None,
        **spec,
    }
    return Yard(*turns, make_host=lambda *_arguments, **_named: docker_host, **values)
