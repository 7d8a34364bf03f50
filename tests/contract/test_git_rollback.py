import os

import pytest
from git_builders import GitBench


@pytest.fixture
def bench(tmp_path):
    return GitBench(tmp_path)


def inodes(top):
    return {
        str(path.relative_to(top)): (path.lstat().st_ino, path.lstat().st_ctime_ns)
        for path in top.rglob("*")
        if path.is_file() and ".git" not in path.parts
    }


def test_only_what_differs_is_written_again(bench):
    start = bench.start({f"f{n}": b"%d" % n for n in range(10)})
    with bench.workspaces.open_workspace(bench.volume(), task_id="t1", start=start) as workspace:
        top = workspace.paths.workspace
        first = workspace.take_snapshot().snapshot
        before = inodes(top)
        (top / "f3").write_bytes(b"changed")
        (top / "extra").write_bytes(b"1")

        workspace.restore(first)

        after = inodes(top)
    assert after.keys() == before.keys()
    assert [name for name in after if after[name] != before[name]] == ["f3"]


def test_everything_that_may_be_wrong_is_put_right(bench):
    start = bench.start({"a": b"1", "b": b"2", "d/c": b"3", "m": b"4", "t": b"5", "h": b"6"})
    with bench.workspaces.open_workspace(bench.volume(), task_id="t1", start=start) as workspace:
        top = workspace.paths.workspace
        first = workspace.take_snapshot().snapshot
        (top / "a").unlink()
        (top / "a").symlink_to("/etc/passwd")
        (top / "b").unlink()
        (top / "b" / "x").mkdir(parents=True)
        (top / "d" / "c").unlink()
        (top / "d").rmdir()
        os.mkfifo(top / "d")
        (top / "m").chmod(0o400)
        os.utime(top / "t", ns=(5, 5))
        (top / "h").unlink()
        os.link(top / "t", top / "h")
        top.chmod(0o700)
        (workspace.paths.home / "left").mkdir()
        (top / ".git" / "HEAD").write_bytes(b"broken")

        workspace.restore(first)

        assert workspace.take_snapshot().snapshot == first


def test_files_that_were_linked_to_one_another_are_apart_again(bench):
    start = bench.start({"a": b"same", "b": b"same"})
    with bench.workspaces.open_workspace(bench.volume(), task_id="t1", start=start) as workspace:
        top = workspace.paths.workspace
        first = workspace.take_snapshot().snapshot
        (top / "b").unlink()
        os.link(top / "a", top / "b")

        workspace.restore(first)

        assert [(top / name).stat().st_nlink for name in ("a", "b")] == [1, 1]
        assert workspace.take_snapshot().snapshot == first


def test_a_link_in_the_place_of_a_directory_is_not_followed(bench):
    outside = bench.root / "outside"
    outside.mkdir()
    (outside / "c").write_bytes(b"mine")
    start = bench.start({"d/c": b"3"})
    with bench.workspaces.open_workspace(bench.volume(), task_id="t1", start=start) as workspace:
        first = workspace.take_snapshot().snapshot
        top = workspace.paths.workspace
        (top / "d" / "c").unlink()
        (top / "d").rmdir()
        (top / "d").symlink_to(outside)

        workspace.restore(first)

        assert (top / "d" / "c").read_bytes() == b"3"
    assert (outside / "c").read_bytes() == b"mine"
    assert len(list(outside.iterdir())) == 1


def test_rolling_back_to_the_start_makes_a_fresh_agent_repository(bench):
    start = bench.start({"a": b"1"})
    with bench.workspaces.open_workspace(bench.volume(), task_id="t1", start=start) as workspace:
        top = workspace.paths.workspace
        (top / "a").write_bytes(b"2")
        bench.git_inside(top, start, "commit", "--quiet", "--all", "--message=mine")

        workspace.restore(start)

        assert bench.git_inside(top, start, "rev-parse", "HEAD") == start.base_commit
        assert bench.git_inside(top, start, "status", "--porcelain") == ""


def test_the_agents_own_commits_stash_and_index_come_back(bench):
    start = bench.start({"a": b"1"})
    with bench.workspaces.open_workspace(bench.volume(), task_id="t1", start=start) as workspace:
        top = workspace.paths.workspace
        (top / "a").write_bytes(b"2")
        bench.git_inside(top, start, "commit", "--quiet", "--all", "--message=mine")
        (top / "a").write_bytes(b"3")
        bench.git_inside(top, start, "stash", "--quiet")
        (top / "b").write_bytes(b"4")
        bench.git_inside(top, start, "add", "b")
        taken = workspace.take_snapshot().snapshot
        wanted = [
            bench.git_inside(top, start, *command)
            for command in (["log", "--format=%H"], ["stash", "list"], ["status", "--porcelain"])
        ]

    with bench.workspaces.open_workspace(bench.volume("v"), task_id="t2", start=taken) as other:
        found = [
            bench.git_inside(other.paths.workspace, start, *command)
            for command in (["log", "--format=%H"], ["stash", "list"], ["status", "--porcelain"])
        ]
    assert found == wanted


def test_what_the_snapshot_could_not_hold_stays_and_what_came_later_goes(bench):
    start = bench.start({"a": b"1"})
    with bench.workspaces.open_workspace(bench.volume(), task_id="t1", start=start) as workspace:
        top, home = workspace.paths.workspace, workspace.paths.home
        os.mkfifo(top / "pipe")
        (home / "deep").mkdir()
        os.mkfifo(home / "deep" / "pipe")
        accepted = workspace.take_snapshot().snapshot
        (top / "a").write_bytes(b"refused")
        os.mkfifo(top / "later")
        workspace.take_snapshot()

        workspace.restore(accepted)

        assert (top / "pipe").is_fifo()
        assert (home / "deep" / "pipe").is_fifo()
        assert not (top / "later").exists()
        assert (top / "a").read_bytes() == b"1"
        assert workspace.take_snapshot().snapshot.coverage == accepted.coverage


def test_a_file_that_grew_beyond_what_snapshots_hold_is_the_held_one_again(tmp_path):
    bench = GitBench(tmp_path)
    start = bench.start({"big": b"1"})
    with bench.workspaces.open_workspace(bench.volume(), task_id="t1", start=start) as workspace:
        top = workspace.paths.workspace
        accepted = workspace.take_snapshot().snapshot
        os.truncate(top / "big", 300 * 1024 * 1024)
        workspace.take_snapshot()

        workspace.restore(accepted)

        assert (top / "big").read_bytes() == b"1"
