from concurrent.futures import ThreadPoolExecutor

import pytest
from git_builders import GitBench, run_git

from sandbox import SnapshotError


@pytest.fixture
def bench(tmp_path):
    return GitBench(tmp_path)


def worktrees(bench, start):
    listing = run_git(bench.snapshots(start), "worktree", "list", "--porcelain")
    return [
        line.split(" ", 1)[1] for line in listing.splitlines() if line.startswith("worktree ")
    ][1:]


def test_each_live_task_has_one_entry_and_an_ended_one_none(bench):
    start = bench.start({"a": b"1"})
    opening = bench.workspaces.open_workspace

    with opening(bench.volume("v1"), task_id="t1", start=start):
        with opening(bench.volume("v2"), task_id="t2", start=start):
            both = worktrees(bench, start)
        one = worktrees(bench, start)

    assert both == [str(bench.root / "v1" / "workspace"), str(bench.root / "v2" / "workspace")]
    assert one == both[:1]
    assert worktrees(bench, start) == []
    assert not (bench.root / "v1").exists()


def test_an_unregistered_workspace_has_no_entry(bench):
    start = bench.start({"a": b"1"})

    with bench.workspaces.open_workspace(
        bench.volume(), task_id="t1", start=start, register=False
    ):
        assert worktrees(bench, start) == []


def test_a_discarded_volume_keeps_its_files_but_no_entry(bench):
    start = bench.start({"a": b"1"})

    with bench.workspaces.open_workspace(bench.volume(), task_id="t1", start=start, erase=False):
        pass

    assert worktrees(bench, start) == []
    assert (bench.root / "volume" / "workspace.ended" / "a").exists()


def test_parallel_starts_all_succeed(bench):
    start = bench.start({f"f{n}": b"1" for n in range(20)})

    def work(number):
        volume = bench.volume(f"v{number}")
        task = f"t{number}"
        with bench.workspaces.open_workspace(volume, task_id=task, start=start) as workspace:
            (workspace.paths.workspace / "mine").write_bytes(task.encode())
            return workspace.take_snapshot().snapshot

    with ThreadPoolExecutor(8) as pool:
        taken = list(pool.map(work, range(12)))

    assert len({snapshot.snapshot_id for snapshot in taken}) == 12
    assert worktrees(bench, start) == []
    run_git(bench.snapshots(start), "fsck", "--no-dangling")


def test_a_dead_tasks_entry_is_ended_and_its_files_deleted(bench):
    start = bench.start({"a": b"1"})
    volume = bench.volume()
    context = bench.workspaces.open_workspace(volume, task_id="t1", start=start)
    context.__enter__()  # the runner dies here: nobody leaves the context

    ended = bench.workspaces.prune(volume)

    assert ended == 1
    assert worktrees(bench, start) == []
    assert not volume.exists()


def test_a_retry_on_the_same_path_works_after_a_death(bench):
    start = bench.start({"a": b"1"})
    volume = bench.volume()
    bench.workspaces.open_workspace(volume, task_id="t1", start=start).__enter__()
    for path in sorted(volume.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()

    with bench.workspaces.open_workspace(volume, task_id="t1", start=start) as workspace:
        assert (workspace.paths.workspace / "a").exists()
        assert len(worktrees(bench, start)) == 1


def test_a_locked_entry_of_somebody_else_is_left_alone(bench):
    start = bench.start({"a": b"1"})
    foreign = bench.root / "foreign"
    options = ["--detach", "--no-checkout", "--lock", "--reason", "on a stick"]
    run_git(
        bench.snapshots(start), "worktree", "add", "--quiet", *options, str(foreign), start.commit
    )
    (foreign / ".git").unlink()
    foreign.rmdir()

    with bench.workspaces.open_workspace(bench.volume(), task_id="t1", start=start):
        pass
    bench.workspaces.prune(foreign)

    assert worktrees(bench, start) == [str(foreign)]


def test_a_failed_start_leaves_nothing(bench):
    start = bench.start({"a": b"1"})
    volume = bench.volume()
    (volume / "workspace").mkdir()
    (volume / "workspace" / "occupied").touch()

    with pytest.raises(Exception, match="already exists"):
        bench.workspaces.open_workspace(volume, task_id="t1", start=start).__enter__()

    assert worktrees(bench, start) == []


@pytest.mark.parametrize("task_id", ["", "../x", "a/b", "-x", "a.lock", "x" * 65])
def test_a_task_id_that_is_no_file_name_is_refused(bench, task_id):
    start = bench.start({"a": b"1"})

    with pytest.raises(SnapshotError, match="no task id"):
        bench.workspaces.open_workspace(bench.volume(), task_id=task_id, start=start).__enter__()
