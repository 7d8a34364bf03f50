import pytest
from git_builders import GitBench

from sandbox import History, LaidSource


@pytest.fixture
def bench(tmp_path):
    return GitBench(tmp_path)


def test_status_is_clean_at_once_whatever_attributes_say(bench):
    start = bench.start({"d/f": b"1\n", ".gitattributes": b"* eol=crlf ident\n"})
    with bench.workspaces.open_workspace(bench.volume(), task_id="t1", start=start) as workspace:
        assert bench.git_inside(workspace.paths.workspace, start, "status", "--porcelain") == ""


def test_the_index_agrees_with_the_files_to_the_nanosecond(bench):
    start = bench.start({"a": b"1", "d/b": b"2"})
    with bench.workspaces.open_workspace(bench.volume(), task_id="t1", start=start) as workspace:
        top = workspace.paths.workspace

        raw = bench.git_inside(top, start, "diff-files")

    assert raw == ""  # diff-files never refreshes: each stat must match


@pytest.mark.parametrize("history", list(History))
def test_git_works_inside(bench, history):
    bench.example.commit({"a": b"0\n"})
    start = bench.start({"a": b"1\n", "b": b"2\n"}, history=history)
    with bench.workspaces.open_workspace(bench.volume(), task_id="t1", start=start) as workspace:
        top = workspace.paths.workspace
        inside = lambda *command: bench.git_inside(top, start, *command)  # noqa: E731
        (top / "a").write_bytes(b"3\n")
        assert inside("status", "--porcelain") == " M a"
        assert "+3" in inside("diff")
        inside("stash", "--quiet")
        inside("stash", "pop", "--quiet")
        inside("commit", "--quiet", "--all", "--message=mine")
        count = len(inside("log", "--format=%H").splitlines())
        inside("fsck", "--no-dangling")
        assert inside("symbolic-ref", "HEAD") == "refs/heads/main"

    assert count == (2 if history is History.SHALLOW else 3)


def test_no_host_path_and_no_remote_is_told_inside(bench):
    start = bench.start({"a": b"1"})
    with bench.workspaces.open_workspace(bench.volume(), task_id="t1", start=start) as workspace:
        files = [p for p in (workspace.paths.workspace / ".git").rglob("*") if p.is_file()]
        text = b"".join(path.read_bytes() for path in files)

    assert str(bench.root).encode() not in text
    assert b"remote" not in text
    assert b"/forkyard/base.git/objects\n" in text


def test_a_verification_gets_the_agents_source_over_the_start_with_named_paths_restored(bench):
    start = bench.start(
        {
            "src/a": b"1",
            "src/old": b"2",
            "tests/t": b"3",
            "tests/u": b"4",
            ".gitignore": b"*.pyc\n",
        }
    )
    with bench.workspaces.open_workspace(bench.volume(), task_id="t1", start=start) as workspace:
        top = workspace.paths.workspace
        (top / "src" / "a").write_bytes(b"fixed")
        (top / "src" / "old").unlink()
        (top / "src" / "run").write_bytes(b"#!/bin/sh\n")
        (top / "src" / "run").chmod(0o700)
        (top / "src" / "link").symlink_to("a")
        (top / "src" / "evil.pyc").write_bytes(b"ignored")
        (top / "tests" / "t").write_bytes(b"assert True")
        (top / "tests" / "u").unlink()
        (top / "tests" / "new").write_bytes(b"cheat")
        (workspace.paths.home / ".profile").write_bytes(b"cheat")
        result = workspace.take_snapshot().snapshot

    lay = LaidSource(snapshot=result, restore=("tests/**",))
    with bench.workspaces.open_workspace(
        bench.volume("v"), task_id="t1", start=start, lay=lay, register=False
    ) as verify:
        top = verify.paths.workspace
        found = {
            str(path.relative_to(top)): path.read_bytes()
            for path in top.rglob("*")
            if path.is_file() and ".git" not in path.parts
        }
        home = list(verify.paths.home.iterdir())
        mode = (top / "src" / "run").stat().st_mode & 0o777
        changed = bench.git_inside(top, start, "status", "--porcelain", "-uall").splitlines()
        after = verify.take_snapshot().snapshot

    assert found == {
        ".gitignore": b"*.pyc\n",
        "src/a": b"fixed",
        "src/run": b"#!/bin/sh\n",
        "src/link": b"fixed",
        "tests/t": b"3",
        "tests/u": b"4",
    }
    assert home == []
    assert mode == 0o755
    assert changed == [" M src/a", " D src/old", "?? src/link", "?? src/run"]
    assert bench.workspaces.read_source_file(after, "src/a") == b"fixed"
