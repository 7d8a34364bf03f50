"""What a setup leaves is where tasks start: one contract for the double and Docker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from host_setting import Setting, make_docker_setting, make_memory_setting
from sandbox_builders import open_test_engine, run, run_shell

from policies import ChangeKind
from sandbox import LaidSource
from sandbox.docker.engine import Engine

SETUP = "echo dep > dep.txt; echo tool > /home/agent/tool; echo log > a.log"


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with open_test_engine() as opened:
        yield opened


@pytest.fixture(
    scope="module", params=["memory", pytest.param("docker", marks=pytest.mark.engine)]
)
def setting(request, tmp_path_factory) -> Setting:
    location = tmp_path_factory.mktemp("source")
    if request.param == "memory":
        return make_memory_setting(location)
    engine = request.getfixturevalue("engine")
    return make_docker_setting(location, engine=engine, home=tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="module")
def made(setting):
    """The starting snapshot that a setup made, and what it changed."""
    spec = setting.spec(purpose="setup", line="setup-line")
    with setting.host.open_sandbox(spec) as sandbox:
        assert run_shell(sandbox, SETUP).ok
        yield spec.start, sandbox.take_start()


def read(sandbox, path):
    return run(sandbox, "cat", path).stdout.head


def test_new_files_of_a_setup_are_part_of_the_start_and_not_of_the_source(setting, made):
    before, taken = made

    assert taken.snapshot.content_id != before.content_id
    assert taken.snapshot.source_tree == before.source_tree
    assert setting.host.make_patch(taken.snapshot) == b""
    assert {one.path for one in taken.changes.items} == {b"dep.txt", b"a.log"}
    assert all(one.ignored for one in taken.changes.items)


def test_a_task_starts_with_what_its_setup_left(setting, made):
    with setting.host.open_sandbox(setting.spec(start=made[1].snapshot)) as sandbox:
        assert read(sandbox, "dep.txt") == b"dep\n"
        assert read(sandbox, "/home/agent/tool") == b"tool\n"


def test_only_the_agents_own_work_is_in_the_patch(setting, made):
    script = "echo own > own.txt; echo more >> dep.txt; echo two >> README.md"
    with setting.host.open_sandbox(setting.spec(start=made[1].snapshot)) as sandbox:
        assert run_shell(sandbox, script).ok
        taken = sandbox.take_snapshot()

    patch = setting.host.make_patch(taken.snapshot)
    assert b"own.txt" in patch
    assert b"README.md" in patch
    assert b"dep.txt" not in patch
    ignored = {one.path: one.kind for one in taken.changes.items if one.ignored}
    assert ignored == {b"dep.txt": ChangeKind.MODIFIED}


def test_a_later_snapshot_remembers_what_the_setup_made(setting, made):
    with setting.host.open_sandbox(setting.spec(start=made[1].snapshot)) as sandbox:
        assert run_shell(sandbox, "echo own > own.txt").ok
        later = sandbox.take_snapshot().snapshot
    with setting.host.open_sandbox(setting.spec(start=later)) as sandbox:
        assert run_shell(sandbox, "echo more >> dep.txt").ok
        last = sandbox.take_snapshot().snapshot

    assert b"dep.txt" not in setting.host.make_patch(last)
    assert b"own.txt" in setting.host.make_patch(last)


def test_a_laid_source_keeps_what_the_setup_made(setting, made):
    start = made[1].snapshot
    with setting.host.open_sandbox(setting.spec(start=start)) as sandbox:
        assert run_shell(sandbox, "rm dep.txt; echo own > own.txt").ok
        result = sandbox.take_snapshot().snapshot

    spec = setting.spec(start=start, lay=LaidSource(snapshot=result), purpose="verify")
    with setting.host.open_sandbox(spec) as sandbox:
        assert read(sandbox, "dep.txt") == b"dep\n"
        assert read(sandbox, "own.txt") == b"own\n"
        assert read(sandbox, "/home/agent/tool") == b"tool\n"


def test_a_setup_that_changes_tracked_files_shows_in_the_source(setting):
    spec = setting.spec(purpose="setup", line="setup-other")
    with setting.host.open_sandbox(spec) as sandbox:
        assert run_shell(sandbox, "echo changed > README.md").ok
        taken = sandbox.take_start()

    assert taken.snapshot.source_tree != spec.start.source_tree
    assert [(one.path, one.ignored) for one in taken.changes.items] == [(b"README.md", False)]
