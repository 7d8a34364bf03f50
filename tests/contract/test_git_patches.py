import os
import random

import pytest
from git_builders import GitBench, run_git

from sandbox import SnapshotError
from sandbox.git.workspaces import GitWorkspaces

BASE = {
    "text": b"one\ntwo\nthree\n",
    "crlf": b"one\r\ntwo\r\n",
    "no-newline": b"end",
    "binary": bytes(range(256)) * 8,
    "mode": b"#!/bin/sh\n",
    "gone": b"x\n",
    "gone-binary": b"\0\1\2",
    "dir/a": b"1\n",
    "file": b"2\n",
    "tolink": b"3\n",
    "emptied": b"4\n",
    ".gitattributes": b"* text=auto eol=crlf\n*.bin diff=evil filter=evil\n",
    "x.bin": b"pretend\n",
}


@pytest.fixture
def bench(tmp_path):
    return GitBench(tmp_path)


def apply(bench, start, patch):
    """Apply a patch to a clean checkout of the base; return the tree that results."""
    target = bench.root / "checkout"
    target.mkdir()
    run_git(target, "init", "--quiet")
    run_git(target, "config", "core.autocrlf", "false")
    (target / ".git" / "info").mkdir(exist_ok=True)
    (target / ".git" / "info" / "attributes").write_text("* -text -eol -filter -diff\n")
    run_git(target, "fetch", "--quiet", str(bench.example.path), start.base_commit)
    run_git(target, "checkout", "--quiet", "FETCH_HEAD")
    if patch:
        (bench.root / "patch").write_bytes(patch)
        run_git(target, "apply", str(bench.root / "patch"))
    run_git(target, "add", "--all", "--force")
    return run_git(target, "write-tree")


def edit(top):
    (top / "text").write_bytes(b"one\nTWO\nthree\n")
    (top / "crlf").write_bytes(b"one\r\nTWO\r\n")
    (top / "no-newline").write_bytes(b"end\nmore")
    (top / "binary").write_bytes(bytes(range(255, -1, -1)) * 9)
    (top / "mode").chmod(0o755)
    (top / "gone").unlink()
    (top / "gone-binary").unlink()
    (top / "dir" / "a").unlink()
    (top / "dir").rmdir()
    (top / "dir").write_bytes(b"a file now\n")
    (top / "file").unlink()
    (top / "file" / "deep").mkdir(parents=True)
    (top / "file" / "deep" / "x").write_bytes(b"below\n")
    (top / "tolink").unlink()
    (top / "tolink").symlink_to("/etc/passwd")
    (top / "emptied").write_bytes(b"")
    (top / "empty").write_bytes(b"")
    (top / "x.bin").write_bytes(b"changed\n")
    for name in ("sp ace", 'quo"te', "tab\tnew\nline", "café", "-dash", "bad\udcff"):
        (top / name).write_bytes(name.encode("utf-8", "surrogateescape") + b"\n")


def test_the_patch_turns_the_base_into_the_source_tree_exactly(bench):
    start = bench.start(BASE)
    with bench.workspaces.open_workspace(bench.volume(), task_id="t1", start=start) as workspace:
        edit(workspace.paths.workspace)
        taken = workspace.take_snapshot().snapshot

    patch = bench.workspaces.make_patch(taken)

    assert apply(bench, start, patch) == taken.source_tree


@pytest.mark.parametrize("seed", range(6))
def test_patches_of_random_edits_apply_exactly(bench, seed):
    chance = random.Random(seed)
    names = [f"{a}/{b}{c}" for a in "abc" for b in "xyz" for c in ("", "/p", "/q")]
    start = bench.start({name: chance.randbytes(30) for name in names if name.count("/") == 1})
    with bench.workspaces.open_workspace(bench.volume(), task_id="t1", start=start) as workspace:
        top = workspace.paths.workspace
        for name in chance.sample(names, 12):
            path = top / name
            if path.is_file() or path.is_symlink():
                path.unlink()
            elif path.parent.is_dir() and not path.exists():
                path.write_bytes(chance.randbytes(chance.choice((0, 5, 50))))
            elif path.parent.is_file():
                path.parent.unlink()
                path.parent.mkdir()
                path.write_bytes(b"line\r\n")
        taken = workspace.take_snapshot().snapshot

    assert apply(bench, start, bench.workspaces.make_patch(taken)) == taken.source_tree


def test_a_patch_larger_than_the_limit_is_refused_naming_it(bench):
    start = bench.start({"a": b"1\n"})
    with bench.workspaces.open_workspace(bench.volume(), task_id="t1", start=start) as workspace:
        (workspace.paths.workspace / "new").write_bytes(random.Random(1).randbytes(300_000))
        taken = workspace.take_snapshot().snapshot
    owner = (os.geteuid(), os.getegid())
    strict = GitWorkspaces(bench.repositories, owner=owner, patch_bytes=300_000)

    with pytest.raises(SnapshotError, match="more than 300000 bytes"):
        strict.make_patch(taken)
    assert len(bench.workspaces.make_patch(taken)) > 300_000


def test_no_change_is_an_empty_patch(bench):
    start = bench.start(BASE)

    assert bench.workspaces.make_patch(start) == b""


def test_what_the_base_ignores_is_listed_and_not_in_the_patch(bench):
    start = bench.start({".gitignore": b"*.log\n", "a": b"1\n"})
    with bench.workspaces.open_workspace(bench.volume(), task_id="t1", start=start) as workspace:
        top = workspace.paths.workspace
        (top / "new.log").write_bytes(b"1")
        (top / ".gitignore").write_bytes(b"*\n")
        (top / "secretly ignored").write_bytes(b"1\n")
        taken = workspace.take_snapshot().snapshot

    patch = bench.workspaces.make_patch(taken)

    assert b"new.log" not in patch
    assert b"secretly ignored" in patch
    changes = bench.workspaces.changes_between(start, taken).items
    assert [change.path for change in changes if change.ignored] == [b"new.log"]


def test_files_of_the_source_tree_can_be_read(bench):
    start = bench.start({"a/b": b"1", ".gitignore": b"c\n"})
    with bench.workspaces.open_workspace(bench.volume(), task_id="t1", start=start) as workspace:
        top = workspace.paths.workspace
        (top / "l").symlink_to("a/b")
        (top / "c").write_bytes(b"ignored")
        taken = workspace.take_snapshot().snapshot

    read = bench.workspaces.read_source_file
    assert read(taken, "a/b") == b"1"
    for path in ("a", "l", "c", "a/b/c", "missing", "", "/a/b", "../a", "./a/b", "a//b"):
        assert read(taken, path) is None, path


def test_nobodys_umask_decides_the_modes(bench):
    before = os.umask(0o077)
    try:
        start = bench.start({"d/a": b"1"})
        with bench.workspaces.open_workspace(bench.volume(), task_id="t1", start=start) as one:
            top = one.paths.workspace
            modes = [(top / name).stat().st_mode & 0o7777 for name in ("d/a", "d", ".git/HEAD")]
            taken = one.take_snapshot().snapshot
    finally:
        os.umask(before)

    assert modes == [0o644, 0o755, 0o644]
    base = bench.repositories.base_repository(
        start.repository_id, start.base_commit, start.history
    )
    assert all(path.stat().st_mode & 0o004 for path in base.rglob("*"))
    assert bench.workspaces.make_patch(taken) == b""


def test_names_that_end_in_a_space_are_read_back_from_the_patch(bench):
    files = dict.fromkeys(("d /gone", "e /mode", "end ", " start"), b"")
    start = bench.start({**files, "f /binary": b"\0\1", "g/plain": b"1\n"})
    with bench.workspaces.open_workspace(bench.volume(), task_id="t1", start=start) as workspace:
        top = workspace.paths.workspace
        (top / "d " / "gone").unlink()
        (top / "e " / "mode").chmod(0o755)
        (top / "f " / "binary").write_bytes(bytes(range(256)))
        (top / "end ").chmod(0o755)
        (top / " start").write_bytes(b"diff --git a/x /y b/x /y\n")
        (top / "new " / "er ").mkdir(parents=True)
        (top / "new " / "er " / "empty").write_bytes(b"")
        (top / "g" / "plain").write_bytes(b"2\n")

        snapshot = workspace.take_snapshot().snapshot

    assert apply(bench, start, bench.workspaces.make_patch(snapshot)) == snapshot.source_tree
