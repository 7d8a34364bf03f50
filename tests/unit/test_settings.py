from __future__ import annotations

from pathlib import Path

import pytest

from runner.bootstrap import make_home
from runner.errors import MissingError, UsageError
from runner.settings import load_settings


def test_variables_are_read(tmp_path: Path) -> None:
    settings = load_settings(
        {
            "FORKYARD_HOME": str(tmp_path),
            "FORKYARD_MEMORY_MIB": "512",
            "FORKYARD_MOUNT_ROOTS": "/srv:/data",
        }
    )

    assert settings.home == tmp_path
    assert settings.memory_mib == 512
    assert settings.mount_roots == ("/srv", "/data")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("FORKYARD_MEMORY_MIB", "abc"),
        ("FORKYARD_MEMORY_MIB", "0"),
        ("FORKYARD_MEMORY_MIB", "-1"),
        ("FORKYARD_MEMORY_MIB", "1.5"),
        ("FORKYARD_MEMORY_MIB", "9" * 5000),
        ("FORKYARD_LEAST_FREE_MIB", "many"),
        ("FORKYARD_MOUNT_ROOTS", "srv"),
        ("DOCKER_HOST", "foo"),
        ("DOCKER_HOST", "tcp://"),
        ("DOCKER_HOST", "tcp://a:b"),
        ("DOCKER_HOST", "tcp://[a:1"),
        ("DOCKER_HOST", "ssh://x"),
        ("FORKYARD_MOUNT_ROOTS", "/srv:./data"),
    ],
)
def test_a_value_that_cannot_be_used_is_told_with_what_is_expected(name: str, value: str) -> None:
    with pytest.raises(UsageError, match=rf"^{name} (is|has) .* expected$") as caught:
        load_settings({"FORKYARD_HOME": "/h", name: value})

    assert value.rpartition(":")[2] in str(caught.value)


@pytest.mark.parametrize("url", ["unix:///run/x.sock", "tcp://10.0.0.1:2375", "http://[::1]:1"])
def test_an_engine_that_is_named_is_asked(url: str) -> None:
    assert load_settings({"FORKYARD_HOME": "/h", "DOCKER_HOST": url}).engine_url == url
    assert load_settings({"FORKYARD_HOME": "/h", "DOCKER_HOST": ""}).engine_url.startswith("unix:")


def test_a_home_that_cannot_be_made_is_told_with_its_name(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()

    for home in (Path("/proc/x"), file, file / "below"):
        with pytest.raises(MissingError, match=f"^FORKYARD_HOME is '{home}': "):
            make_home(home)


def test_a_home_is_private_and_may_be_there_already(tmp_path: Path) -> None:
    home = tmp_path / "a" / "home"

    make_home(home)
    make_home(home)

    assert home.stat().st_mode & 0o777 == 0o700
    assert list(home.iterdir()) == []
