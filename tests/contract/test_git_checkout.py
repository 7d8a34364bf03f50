"""A task's changes, written into the checkout that a user works in."""

import os
import stat
from contextlib import contextmanager

import pytest
from git_builders import GitBench, run_git

from sandbox import CheckoutConflictError, SourceError

FILES = {
    "README": b"hello\n",
    "src/one.py": b"ONE = 1\n",
    "src/deep/two.py": b"TWO = 2\n",
    "run.sh": b"#!/bin/sh\n",
    "away/only": b"bye\n",
    ".gitignore": b"*.log\n",
}


@pytest.fixture
def bench(tmp_path):
    bench = GitBench(tmp_path)
    bench.start(FILES)
    (bench.example.path / "run.sh").chmod(0o755)
    (bench.example.path / "link").symlink_to("src/one.py")
    return bench


@contextmanager
def task(bench):
    start = bench.start()
    with bench.workspaces.open_workspace(bench.volume(), task_id="t1", start=start) as workspace:
        taken = []
        yield workspace.paths.workspace, taken
        taken.append(workspace.take_snapshot().snapshot)


@pytest.fixture
def changed(bench):
    with task(bench) as (work, taken):
        (work / "README").write_bytes(b"changed\n")
        (work / "src/new/three.py").parent.mkdir()
        (work / "src/new/three.py").write_bytes(b"THREE = 3\n")
        (work / "away/only").unlink()
        (work / "run.sh").chmod(0o644)
        (work / "link").unlink()
        (work / "link").symlink_to("README")
        (work / "made.log").write_bytes(b"ignored\n")
    return taken[0]


def apply(bench, snapshot, place=None):
    return bench.workspaces.apply_to_checkout(snapshot, str(place or bench.example.path))


def look(root):
    """Return everything in a checkout but its `.git`: kind, bytes, mode."""
    return {
        str(path.relative_to(root)): (path.lstat().st_mode, read(path))
        for path in sorted(root.rglob("*"))
        if ".git" not in path.relative_to(root).parts
    }


def read(path):
    if path.is_symlink():
        return os.fsencode(path.readlink())
    return path.read_bytes() if path.is_file() else b""


def test_all_kinds_of_changes_appear_as_unstaged_ones(bench, changed):
    index = (bench.example.path / ".git/index").read_bytes()
    refs = bench.example.git("for-each-ref")

    paths = apply(bench, changed)

    assert paths == (b"README", b"away/only", b"link", b"run.sh", b"src/new/three.py")
    assert (bench.example.path / ".git/index").read_bytes() == index
    assert bench.example.git("for-each-ref") == refs
    bench.example.git("add", "--all")
    assert bench.example.git("write-tree") == changed.source_tree
    assert not (bench.example.path / "away").exists()
    assert not (bench.example.path / "made.log").exists()
    assert list(bench.example.path.glob(".forkyard*")) == []


def test_permissions_of_a_changed_file_stay_but_for_the_executable_bit(bench, changed):
    (bench.example.path / "README").chmod(0o600)
    (bench.example.path / "run.sh").chmod(0o750)

    apply(bench, changed)

    assert stat.S_IMODE((bench.example.path / "README").stat().st_mode) == 0o600
    assert stat.S_IMODE((bench.example.path / "run.sh").stat().st_mode) == 0o640


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_what_root_writes_belongs_to_the_owner_of_the_checkout(bench, changed):
    for path in (bench.example.path, *bench.example.path.rglob("*")):
        os.chown(path, 1000, 1000, follow_symlinks=False)

    apply(bench, changed)

    made = [
        bench.example.path / name for name in ("README", "src/new", "src/new/three.py", "link")
    ]
    assert {path.lstat().st_uid for path in made} == {1000}


def edit(root):
    (root / "README").write_bytes(b"mine\n")


def stage(root):
    (root / "README").write_bytes(b"mine\n")
    run_git(root, "add", "README")
    (root / "README").write_bytes(FILES["README"])


def stage_a_directory_in_place_of_a_file(root):
    (root / "link").unlink()
    (root / "link").mkdir()
    (root / "link/below").touch()
    run_git(root, "add", "--all")


def commit(root):
    (root / "README").write_bytes(b"mine\n")
    run_git(root, "commit", "--quiet", "--all", "--message=mine")


def commit_and_take_back(root):
    commit(root)
    (root / "README").write_bytes(FILES["README"])


def delete(root):
    (root / "away/only").unlink()


def change_mode(root):
    (root / "README").chmod(0o755)


def change_kind(root):
    (root / "README").unlink()
    (root / "README").symlink_to("src/one.py")


def change_link(root):
    (root / "link").unlink()
    (root / "link").symlink_to("run.sh")


def replace_by_directory(root):
    (root / "README").unlink()
    (root / "README").mkdir()


def put_a_file_in_the_way(root):
    (root / "src/new").mkdir()
    (root / "src/new/three.py").touch()


def put_a_file_in_place_of_a_directory(root):
    (root / "src/new").touch()


def put_a_directory_in_the_way(root):
    (root / "src/new/three.py").mkdir(parents=True)


def make_a_repository_of_its_own(root):
    (root / "src/new").mkdir()
    run_git(root / "src/new", "init", "--quiet")


def link_a_directory_elsewhere(root):
    (root / "src").rename(root / "elsewhere")
    (root / "src").symlink_to("elsewhere")


@pytest.mark.parametrize(
    ("disturb", "path"),
    [
        (edit, b"README"),
        (stage, b"README"),
        (stage_a_directory_in_place_of_a_file, b"link"),
        (commit, b"README"),
        (commit_and_take_back, b"README"),
        (delete, b"away/only"),
        (change_mode, b"README"),
        (change_kind, b"README"),
        (change_link, b"link"),
        (replace_by_directory, b"README"),
        (put_a_file_in_the_way, b"src/new/three.py"),
        (put_a_file_in_place_of_a_directory, b"src/new/three.py"),
        (put_a_directory_in_the_way, b"src/new/three.py"),
        (make_a_repository_of_its_own, b"src/new/three.py"),
        (link_a_directory_elsewhere, b"src/new/three.py"),
    ],
)
def test_work_of_the_user_in_a_touched_path_refuses_all(bench, changed, disturb, path):
    disturb(bench.example.path)
    before = look(bench.example.path)

    with pytest.raises(CheckoutConflictError) as refused:
        apply(bench, changed)

    assert [one for one, _ in refused.value.conflicts] == [path]
    assert look(bench.example.path) == before


def test_work_elsewhere_and_later_commits_elsewhere_do_not_matter(bench, changed):
    (bench.example.path / "src/one.py").write_bytes(b"mine\n")
    (bench.example.path / "staged").write_bytes(b"mine\n")
    bench.example.git("add", "staged")
    bench.example.git("commit", "--quiet", "--message=later")
    (bench.example.path / "untracked").write_bytes(b"mine\n")

    apply(bench, changed)

    assert (bench.example.path / "README").read_bytes() == b"changed\n"
    assert (bench.example.path / "src/one.py").read_bytes() == b"mine\n"


def test_a_second_time_refuses_since_the_changes_are_there(bench, changed):
    apply(bench, changed)
    before = look(bench.example.path)

    with pytest.raises(CheckoutConflictError):
        apply(bench, changed)

    assert look(bench.example.path) == before


def test_every_conflict_is_named_with_its_reason(bench, changed):
    edit(bench.example.path)
    delete(bench.example.path)

    with pytest.raises(
        CheckoutConflictError, match=r"'README': it is not as .* 'away/only': it is"
    ):
        apply(bench, changed)


def swap_kinds(work):
    (work / "README").unlink()
    (work / "README/below").parent.mkdir()
    (work / "README/below").write_bytes(b"below\n")
    (work / "src/one.py").unlink()
    (work / "src/deep/two.py").unlink()
    (work / "src/deep").rmdir()
    (work / "src").rmdir()
    (work / "src").write_bytes(b"a file now\n")


def test_files_and_directories_can_take_each_others_places(bench):
    with task(bench) as (work, taken):
        swap_kinds(work)

    apply(bench, taken[0])

    bench.example.git("add", "--all")
    assert bench.example.git("write-tree") == taken[0].source_tree


def test_an_ignored_file_of_the_user_keeps_its_directory_from_being_replaced(bench):
    with task(bench) as (work, taken):
        swap_kinds(work)
    (bench.example.path / "src/deep/mine.log").write_bytes(b"mine\n")
    before = look(bench.example.path)

    with pytest.raises(CheckoutConflictError, match=r"src/deep/mine\.log' is in the way"):
        apply(bench, taken[0])

    assert look(bench.example.path) == before


def test_a_linked_worktree_is_a_checkout_with_an_index_of_its_own(bench, changed):
    linked = bench.root / "linked"
    bench.example.git("worktree", "add", "--quiet", "--detach", str(linked), changed.base_commit)
    edit(bench.example.path)
    bench.example.git("add", "README")

    apply(bench, changed, linked)

    assert (linked / "README").read_bytes() == b"changed\n"


def test_a_place_without_a_checkout_or_with_another_history_is_refused(bench, changed):
    run_git(bench.root, "clone", "--bare", "--quiet", str(bench.example.path), "bare")
    run_git(bench.root, "init", "--quiet", "other")

    for place, why in [
        (bench.root / "bare", "no checkout"),
        (bench.example.path / "src", "not a git repository"),
        (bench.root / "other", "does not have the base commit"),
    ]:
        with pytest.raises(SourceError, match=why):
            apply(bench, changed, place)
