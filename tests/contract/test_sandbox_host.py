"""One contract for the in-memory double and Docker with a restored volume."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from host_setting import FILES, Setting, make_docker_setting, make_memory_setting, twin_of
from sandbox_builders import SMALL, open_test_engine, run

from policies import ChangeKind, Mount, Network, NetworkMode, RootFilesystem
from sandbox import (
    Command,
    CommandRefusedError,
    Ending,
    ImageMissingError,
    LaidSource,
    RepositoryError,
    SandboxLostError,
    SnapshotError,
    SourceError,
    UnsupportedError,
)
from sandbox.docker.engine import Engine

SHARED = ("shared", 1)
"""Task and attempt of the sandbox that most tests use."""


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
def shared(setting):
    """A sandbox whose files no test relies on."""
    spec = setting.spec(task_id=SHARED[0], attempt=SHARED[1])
    with setting.host.open_sandbox(spec) as sandbox:
        yield sandbox


def write(sandbox, path: str, data: bytes) -> None:
    assert run(sandbox, "tee", path, stdin=data).ok


def test_an_engine_that_answers_is_alive(setting):
    setting.host.check_engine()


def test_an_image_is_resolved_to_an_id_and_an_id_to_itself(setting):
    assert setting.image.startswith("sha256:")
    assert setting.host.resolve_image(setting.image) == setting.image


def test_a_missing_image_is_an_error_before_anything_is_made(setting):
    with pytest.raises(ImageMissingError):
        setting.host.resolve_image("nosuch:1")

    with (
        pytest.raises(ImageMissingError),
        setting.host.open_sandbox(setting.spec(image="nosuch:1")),
    ):
        pytest.fail("made")


def test_a_source_that_is_not_there_is_the_users_error(setting):
    with pytest.raises(SourceError):
        setting.host.import_source(replace(setting.source, location="/nonexistent"))


def test_importing_twice_gives_the_same(setting):
    first = setting.host.import_source(setting.source)

    assert setting.host.import_source(setting.source) == first


def test_equal_files_of_two_sources_are_two_snapshots_that_compare_by_themselves(setting):
    place = twin_of(Path(setting.source.location))
    twin = setting.host.import_source(replace(setting.source, location=str(place)))

    first, second = setting.start("t1"), setting.host.start_snapshot(twin, task_id="t2")

    assert first.base_commit == second.base_commit
    assert first.content_id == second.content_id
    assert first.snapshot_id != second.snapshot_id
    assert setting.host.changes_between(second, second).items == ()


def test_tasks_on_one_source_start_from_equal_files(setting):
    assert setting.start("t1").content_id == setting.start("t2").content_id


@pytest.mark.parametrize(
    "changes",
    [
        {"network": Network(mode=NetworkMode.ALLOWLIST, hosts=("example.org",))},
        {"rootfs": RootFilesystem.WRITABLE},
        {"mounts": (Mount(source="/srv", target="/workspace"),)},
    ],
    ids=["allowlist", "writable root", "mount over workspace"],
)
def test_what_cannot_be_enforced_is_refused(setting, changes):
    with (
        pytest.raises(UnsupportedError),
        setting.host.open_sandbox(setting.spec(**changes)),
    ):
        pytest.fail("made")


def test_a_sandbox_starts_with_the_files_of_the_base(shared):
    result = run(shared, "cat", "src/one.py")

    assert result.ok
    assert result.stdout.head == FILES["src/one.py"]


def test_the_exit_code_is_a_result(shared):
    result = run(shared, "sh", "-c", "exit 3")

    assert (result.ending, result.exit_code, result.ok) == (Ending.EXITED, 3, False)


def test_a_program_that_is_not_there_is_a_result_with_127(shared):
    result = run(shared, "nosuchprogram")

    assert (result.ending, result.exit_code) == (Ending.EXITED, 127)
    assert b"not found" in result.stderr.head


def test_standard_input_arrives_and_both_streams_are_hashed(shared):
    result = run(shared, "cat", stdin=b"in\xff")

    assert result.stdout.head == b"in\xff"
    assert result.stdout.sha256 == hashlib.sha256(b"in\xff").hexdigest()
    assert result.stderr.sha256 == hashlib.sha256(b"").hexdigest()


def test_long_output_keeps_both_ends_and_counts_the_rest(shared):
    data = bytes(range(256)) * 40

    result = run(shared, "cat", stdin=data, output_bytes=1000)

    output = result.stdout
    assert (output.head, output.tail) == (data[:500], data[-500:])
    assert (output.total_bytes, output.missing_bytes) == (len(data), len(data) - 1000)
    assert output.sha256 == hashlib.sha256(data).hexdigest()


def test_a_command_has_its_directory_and_environment(setting):
    spec = setting.spec(environment=(("CI", "1"),))
    with setting.host.open_sandbox(spec) as sandbox:
        cwd = run(sandbox, "pwd", cwd="/home/agent")
        policy = run(sandbox, "printenv", "CI")
        own = run(sandbox, "printenv", "MINE", environment=(("MINE", "2"),))

    assert [one.stdout.head for one in (cwd, policy, own)] == [b"/home/agent\n", b"1\n", b"2\n"]


@pytest.mark.parametrize(
    "command",
    [
        Command(argv=()),
        Command(argv=("echo", "a\0b")),
        Command(argv=("true",), cwd="/proc/self"),
        Command(argv=("true",), environment=(("LD_PRELOAD", "x"),)),
    ],
)
def test_a_malformed_command_is_refused_and_the_sandbox_goes_on(shared, command):
    with pytest.raises(CommandRefusedError):
        shared.run(command)

    assert run(shared, "true").ok


def test_a_time_limit_ends_a_command_without_an_exit_code(shared):
    result = run(shared, "sleep", "100", timeout_seconds=0.3)

    assert (result.ending, result.exit_code) == (Ending.TIMED_OUT, None)
    assert run(shared, "true").ok


def test_a_stop_signal_ends_a_command_without_an_exit_code(shared):
    stop = threading.Event()
    stop.set()

    result = shared.run(Command(argv=("sleep", "100")), stop=stop)

    assert (result.ending, result.exit_code) == (Ending.STOPPED, None)


def test_a_snapshot_tells_what_changed_since_the_last_one(setting):
    with setting.host.open_sandbox(setting.spec()) as sandbox:
        write(sandbox, "src/two.py", b"TWO = 2\n")
        write(sandbox, "src/one.py", b"ONE = 11\n")
        run(sandbox, "rm", "README.md")
        write(sandbox, "x.log", b"log\n")
        first = sandbox.take_snapshot()
        second = sandbox.take_snapshot()

    told = {(change.path, change.kind): change.ignored for change in first.changes.items}
    assert told == {
        (b"README.md", ChangeKind.DELETED): False,
        (b"src/one.py", ChangeKind.MODIFIED): False,
        (b"src/two.py", ChangeKind.ADDED): False,
        (b"x.log", ChangeKind.ADDED): True,
    }
    assert second.changes.items == ()
    assert second.snapshot.content_id == first.snapshot.content_id
    assert setting.host.changes_between(setting.start(), first.snapshot) == first.changes


def test_a_changed_mode_is_told_as_such(setting):
    with setting.host.open_sandbox(setting.spec()) as sandbox:
        run(sandbox, "chmod", "755", "src/one.py")
        taken = sandbox.take_snapshot()

    assert [(one.path, one.kind) for one in taken.changes.items] == [
        (b"src/one.py", ChangeKind.MODE)
    ]


def test_restoring_puts_workspace_home_and_tmp_back(setting):
    with setting.host.open_sandbox(setting.spec()) as sandbox:
        for path in ("src/one.py", "/home/agent/kept", "/tmp/kept"):
            write(sandbox, path, b"first\n")
        first = sandbox.take_snapshot().snapshot
        for path in ("src/one.py", "/home/agent/kept", "/tmp/kept", "/tmp/new"):
            write(sandbox, path, b"second\n")

        sandbox.restore(first)

        kept = [
            run(sandbox, "cat", path) for path in ("src/one.py", "/home/agent/kept", "/tmp/kept")
        ]
        assert [one.stdout.head for one in kept] == [b"first\n"] * 3
        assert not run(sandbox, "cat", "/tmp/new").ok
        assert sandbox.take_snapshot().snapshot.content_id == first.content_id


def test_a_new_sandbox_on_a_snapshot_has_its_files(setting):
    with setting.host.open_sandbox(setting.spec()) as sandbox:
        write(sandbox, "x.log", b"ignored too\n")
        snapshot = sandbox.take_snapshot().snapshot

    with setting.host.open_sandbox(setting.spec(start=snapshot)) as sandbox:
        assert run(sandbox, "cat", "x.log").stdout.head == b"ignored too\n"


def test_laying_a_source_over_keeps_ignored_files_and_named_paths(setting):
    with setting.host.open_sandbox(setting.spec()) as sandbox:
        write(sandbox, "src/one.py", b"ONE = 2\n")
        write(sandbox, "tests/test_one.py", b"cheated\n")
        write(sandbox, "x.log", b"of the agent\n")
        write(sandbox, "/home/agent/x", b"of the agent\n")
        run(sandbox, "rm", "README.md")
        agents = sandbox.take_snapshot().snapshot
    lay = LaidSource(snapshot=agents, restore=("tests/**",))

    with setting.host.open_sandbox(setting.spec(lay=lay, purpose="verify")) as sandbox:
        assert run(sandbox, "cat", "src/one.py").stdout.head == b"ONE = 2\n"
        assert run(sandbox, "cat", "tests/test_one.py").stdout.head == FILES["tests/test_one.py"]
        for path in ("README.md", "x.log", "/home/agent/x"):
            assert not run(sandbox, "cat", path).ok


def test_the_patch_holds_source_and_nothing_ignored(setting):
    with setting.host.open_sandbox(setting.spec()) as sandbox:
        write(sandbox, "src/one.py", b"ONE = 2\n")
        write(sandbox, "x.log", b"log\n")
        snapshot = sandbox.take_snapshot().snapshot

    patch = setting.host.make_patch(snapshot)

    assert b"-ONE = 1\n+ONE = 2\n" in patch
    assert b"x.log" not in patch
    assert setting.host.make_patch(setting.start()) == b""


def test_source_files_are_read_from_a_snapshot_and_nothing_else_is(setting):
    start = setting.start()

    assert setting.host.read_source_file(start, "README.md") == FILES["README.md"]
    assert setting.host.read_source_file(start, "nosuch") is None
    assert setting.host.read_source_file(start, "../README.md") is None


def test_a_snapshot_that_does_not_exist_cannot_be_opened(setting):
    gone = replace(setting.start(), commit="f" * 40)

    with (
        pytest.raises((SnapshotError, RepositoryError)),
        setting.host.open_sandbox(setting.spec(start=gone)),
    ):
        pytest.fail("made")


def test_an_error_inside_the_context_still_removes_everything(setting):
    with pytest.raises(ZeroDivisionError), setting.host.open_sandbox(setting.spec()) as sandbox:
        raise ZeroDivisionError

    with pytest.raises(SandboxLostError):
        run(sandbox, "true")


def test_reaping_removes_what_is_not_live_and_only_that(setting):
    with ExitStack() as stack:
        live, dead = setting.spec(), setting.spec()
        kept = stack.enter_context(setting.host.open_sandbox(live))
        left = stack.enter_context(setting.host.open_sandbox(dead))

        removed = setting.host.reap(lambda: [(live.task_id, live.attempt), SHARED])

        assert removed >= 1
        assert run(kept, "true").ok
        with pytest.raises(SandboxLostError):
            run(left, "true")
        assert setting.host.reap(lambda: [(live.task_id, live.attempt), SHARED]) == 0


def test_a_later_attempt_is_another_one_for_the_reaper(setting):
    spec = setting.spec(attempt=2)
    with setting.host.open_sandbox(spec) as sandbox:
        setting.host.reap(lambda: [(spec.task_id, 1), SHARED])

        with pytest.raises(SandboxLostError):
            run(sandbox, "true")


def test_releasing_a_task_keeps_its_snapshots(setting):
    spec = setting.spec()
    with setting.host.open_sandbox(spec) as sandbox:
        write(sandbox, "new", b"new\n")
        snapshot = sandbox.take_snapshot().snapshot

    setting.host.release(spec.task_id)
    setting.host.release(spec.task_id)

    assert setting.host.read_source_file(snapshot, "new") == b"new\n"


def test_sandboxes_of_several_tasks_run_side_by_side(setting):
    outputs: list[bytes] = []

    def work() -> None:
        with setting.host.open_sandbox(setting.spec(limits=SMALL)) as sandbox:
            outputs.append(run(sandbox, "cat", "README.md").stdout.head)

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()

    assert outputs == [FILES["README.md"]] * 4
