"""One container for all tests that only look at it; others make their own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hostile_builders import (
    SIBLING,
    EndedTask,
    HostileYard,
    assert_others_are_whole,
    make_hostile_archive,
    make_task,
    open_hostile_yard,
)
from hostile_calls import (
    make_file_calls,
    make_resource_calls,
    make_sibling_calls,
    make_surface_calls,
)
from sandbox_builders import find_image, make_plain_host, make_spec, open_test_engine

from runner.domain.outcome import Outcome
from runner.domain.task import RepositorySpec
from sandbox import Sandbox
from sandbox.docker.engine import Engine
from sandbox.docker.host import DockerSandboxHost


@pytest.fixture(scope="session")
def engine() -> Iterator[Engine]:
    with open_test_engine() as opened:
        yield opened


@pytest.fixture(scope="session")
def image(engine: Engine) -> str:
    return find_image(engine)


@pytest.fixture(scope="session")
def host(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> DockerSandboxHost:
    home: Path = tmp_path_factory.mktemp("home")
    return make_plain_host(engine, home)


@pytest.fixture(scope="session")
def shared(host: DockerSandboxHost, image: str) -> Iterator[Sandbox]:
    """A sandbox that stays whole: its tests must not kill its residents or fill its volume."""
    with host.open_sandbox(make_spec(image)) as sandbox:
        yield sandbox


@pytest.fixture(scope="session")
def yard(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostileYard]:
    """One batch of hostile tasks beside a sibling, run to its end."""
    files = {"README": b"read me\n", "check.sh": b"grep -q fixed answer\n"}
    with open_hostile_yard(tmp_path_factory.mktemp("hostile"), files) as opened:
        calls = {
            SIBLING: make_sibling_calls(),
            "surface": make_surface_calls(),
            "resources": make_resource_calls(),
            "files": make_file_calls(
                secret=str(opened.folder / "secret"), marker=str(opened.marker)
            ),
        }
        tasks = {name: make_task(opened, name, list(one.values())) for name, one in calls.items()}
        archive = make_hostile_archive(opened)
        tasks["archive"] = make_task(
            opened, "archive", [], repo=RepositorySpec(kind="archive", location=str(archive))
        )
        tasks["ref"] = make_task(
            opened,
            "ref",
            [],
            repo=RepositorySpec(
                kind="path",
                location=str(opened.repository),
                ref=f"--upload-pack=touch {opened.marker}",
            ),
        )
        opened.run(tasks, {name: list(calls.get(name, ())) for name in tasks})
        yield opened


@pytest.fixture
def ended(request: pytest.FixtureRequest, yard: HostileYard) -> EndedTask:
    """A hostile task after its end: host and sibling have not noticed, its outcome is stored."""
    assert_others_are_whole(yard)
    task = yard.ended[request.module.TASK]
    assert (task.run.outcome, task.run.attempt) == (Outcome.NOT_VERIFIED, 1)
    assert yard.ended[SIBLING].run.ended_at > task.run.ended_at  # it answered all the while
    assert (task.run.items, task.run.head) == (len(task.items), task.items[-1].hash)
    return task
