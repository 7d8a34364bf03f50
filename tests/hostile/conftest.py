"""One container for all tests that only look at it; others make their own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sandbox_builders import find_image, make_plain_host, make_spec, open_test_engine

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
