"""What a user's checkout holds and no commit does, as a source."""

import os
import subprocess

import pytest
from git_builders import GitBench, run_git

from sandbox.errors import SourceError
from sandbox.git.repositories import GitRepositories
from sandbox.git.user_files import CheckoutLimits
from sandbox.git.user_repository import UserRepository
from sandbox.snapshot import History
from sandbox.source import Source, SourceKind

UNCOMMITTED = ("uncommitted",)
UNTRACKED = ("untracked",)
FILES = {
    "kept": b"kept\n",
    "changed": b"old\n",
    "staged": b"old\n",
    "deleted": b"old\n",
    "removed": b"old\n",
    "run": b"#!/bin/sh\n",
    ".gitignore": b"*.secret\nbuild/\n",
}


@pytest.fixture
def bench(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    return GitBench(tmp_path)


@pytest.fixture
def checkout(bench):
    """A checkout in which everything is under way."""
    bench.example.commit(FILES)
    place = bench.example.path
    (place / "changed").write_bytes(b"new\r\n")
    (place / "staged").write_bytes(b"new\n")
    (place / "added").write_bytes(b"new\n")
    bench.example.git("add", "staged", "added")
    (place / "deleted").unlink()
    bench.example.git("rm", "--quiet", "removed")
    (place / "run").chmod(0o755)
    (place / "fresh").mkdir()
    (place / "fresh" / "café \udcff\n").write_bytes(b"untracked\n")
    (place / "link").symlink_to("/etc/passwd")
    (place / "build").mkdir()
    (place / "build" / "big.o").write_bytes(b"ignored\n")
    (place / "a.secret").write_bytes(b"password\n")
    (place / "b.secret").write_bytes(b"password\n")
    return place


def include(bench, *words, place=None, history=History.FULL, ref="HEAD"):
    source = Source(
        kind=SourceKind.PATH,
        location=str(place or bench.example.path),
        include=words,
        history=history,
        ref=ref,
    )
    return bench.repositories.import_source(source)


def list_files(bench, imported):
    """Return the tree of an imported commit as path -> (mode, content)."""
    base = bench.repositories.base_repository(
        imported.repository_id, imported.commit, imported.history
    )
    found = {}
    for line in run_git(base, "ls-tree", "-r", "-z", imported.commit).split("\0")[:-1]:
        head, _, name = line.partition("\t")
        mode, kind, oid = head.split(" ")
        content = run_git(base, "cat-file", "blob", oid) if kind == "blob" else oid
        found[name] = (mode, content)
    return found


def test_tracked_files_are_taken_as_they_are_staged_or_not(bench, checkout):
    head = bench.example.git("rev-parse", "HEAD")

    imported = include(bench, *UNCOMMITTED)

    found = list_files(bench, imported)
    assert sorted(found) == [".gitignore", "added", "changed", "kept", "run", "staged"]
    assert found["changed"] == ("100644", "new\r")
    assert found["staged"] == found["added"] == ("100644", "new")
    assert found["run"][0] == "100755"
    base = bench.repositories.base_repository(
        imported.repository_id, imported.commit, History.FULL
    )
    assert run_git(base, "rev-parse", f"{imported.commit}^") == head


def test_new_files_are_taken_and_ignored_ones_only_when_named(bench, checkout):
    assert {"link", "fresh/café \udcff\n"} <= list_files(bench, include(bench, *UNTRACKED)).keys()

    found = list_files(bench, include(bench, *UNTRACKED, "a.secret"))

    assert found["link"] == ("120000", "/etc/passwd")
    assert found["changed"] == ("100644", "old")
    assert "a.secret" in found
    assert not {"b.secret", "build/big.o"} & found.keys()


def test_what_the_user_ignores_everywhere_is_no_new_file(bench, checkout):
    ignore = bench.root / "user" / ".config" / "git" / "ignore"
    ignore.parent.mkdir(parents=True)
    ignore.write_text("fresh/\n")
    (checkout / ".git" / "info").mkdir(exist_ok=True)
    (checkout / ".git" / "info" / "exclude").write_text("link\n")
    bench.example.git("config", "core.excludesFile", str(bench.root / "more"))

    assert "link" not in list_files(bench, include(bench, *UNTRACKED))
    assert "fresh/café \udcff\n" in list_files(bench, include(bench, *UNTRACKED))
    bench.example.git("config", "--unset", "core.excludesFile")
    assert "fresh/café \udcff\n" not in list_files(bench, include(bench, *UNTRACKED))


def test_equal_files_give_the_same_commit_and_nothing_new_gives_the_users_own(bench, checkout):
    first = include(bench, *UNCOMMITTED, *UNTRACKED)
    os.utime(checkout / "changed", (1, 1))
    assert include(bench, *UNTRACKED, *UNCOMMITTED).commit == first.commit

    head = bench.example.commit()
    assert include(bench, *UNCOMMITTED, *UNTRACKED).commit == head


def test_the_checkout_its_index_and_its_refs_stay_as_they_were(bench, checkout):
    before = _fingerprint(checkout)

    include(bench, *UNCOMMITTED, *UNTRACKED, "**/*.secret")

    assert _fingerprint(checkout) == before


def test_an_edit_of_the_same_size_right_after_git_looked_is_seen(bench):
    bench.example.commit({"a": b"aaaa"})
    for _ in range(20):
        (bench.example.path / "a").write_bytes(b"aaaa")
        bench.example.git("add", "a")
        (bench.example.path / "a").write_bytes(b"bbbb")
        assert list_files(bench, include(bench, *UNCOMMITTED))["a"][1] == "bbbb"


def test_no_program_that_the_repository_names_runs(bench, checkout):
    canary = bench.root / "canary"
    script = bench.root / "script"
    script.write_text(f"#!/bin/sh\ntouch {canary}\ncat\n")
    script.chmod(0o755)
    for key in ("core.fsmonitor", "filter.x.clean", "filter.x.smudge", "filter.x.process"):
        bench.example.git("config", key, str(script))
    bench.example.git("config", "core.hooksPath", str(bench.root))
    (bench.root / "post-index-change").symlink_to(script)
    (checkout / ".gitattributes").write_bytes(b"* filter=x diff=x\n")
    inner = checkout / "inner"
    inner.mkdir()
    run_git(inner, "init", "--quiet")
    run_git(inner, "config", "core.fsmonitor", str(script))

    imported = include(bench, *UNCOMMITTED, *UNTRACKED)

    assert not canary.exists()
    assert ".gitattributes" in list_files(bench, imported)
    assert imported.notes == ("inner: not included: a repository of its own",)


def test_what_is_no_file_is_passed_over_with_a_note(bench, checkout):
    os.mkfifo(checkout / "pipe")
    os.mkfifo(checkout / "build" / "pipe")
    (checkout / "kept").unlink()
    os.mkfifo(checkout / "kept")

    imported = include(bench, *UNCOMMITTED, *UNTRACKED)

    assert imported.notes == (
        "kept: not included: a named pipe",
        "pipe: not included: a named pipe",
    )
    assert "kept" not in list_files(bench, imported)


def test_a_pipe_or_a_link_as_ignore_file_neither_blocks_nor_counts(bench):
    bench.example.commit({"a": b"1"})
    os.mkfifo(bench.example.path / ".gitignore")
    (bench.example.path / "below").mkdir()
    (bench.example.path / "below" / ".gitignore").symlink_to("/dev/zero")
    (bench.example.path / "below" / "b").write_bytes(b"2")

    found = list_files(bench, include(bench, *UNTRACKED))

    assert {"a", "below/b", "below/.gitignore"} == found.keys()


def test_a_pipe_as_index_ends_in_an_error(bench):
    bench.example.commit({"a": b"1"})
    index = bench.example.path / ".git" / "index"
    index.unlink()
    os.mkfifo(index)
    user = UserRepository(bench.repositories.git, str(bench.example.path), limit_seconds=0.5)

    with pytest.raises(SourceError, match="index cannot be read"):
        user.read_index()


def test_a_link_in_the_place_of_a_folder_is_not_followed(bench):
    outside = bench.root / "outside"
    outside.mkdir()
    (outside / "f").write_bytes(b"host")
    bench.example.commit({"d/f": b"1", "e": b"1"})
    (bench.example.path / "d" / "f").unlink()
    (bench.example.path / "d").rmdir()
    (bench.example.path / "d").symlink_to(outside)

    assert list_files(bench, include(bench, *UNCOMMITTED)).keys() == {"e"}
    found = list_files(bench, include(bench, *UNCOMMITTED, *UNTRACKED))
    assert found["d"] == ("120000", str(outside))


def test_a_file_over_the_limit_is_refused_by_name(bench, checkout):
    bench.repositories = GitRepositories(
        bench.root / "home", checkout_limits=CheckoutLimits(file_bytes=100, total_bytes=60)
    )
    (checkout / "b.secret").write_bytes(b"x" * 101)
    include(bench, *UNCOMMITTED)
    with pytest.raises(SourceError, match=r"'b\.secret' has 101 bytes, more than 100"):
        include(bench, "*.secret")
    (checkout / "b.secret").write_bytes(b"x" * 80)
    with pytest.raises(SourceError, match=r"'b\.secret' would be over 60 bytes"):
        include(bench, "*.secret")


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is closed to root")
def test_a_closed_file_is_refused_by_name(bench, checkout):
    (checkout / "changed").chmod(0)
    with pytest.raises(SourceError, match="'changed' cannot be read"):
        include(bench, *UNCOMMITTED)


def test_only_what_is_checked_out_can_be_included(bench, checkout):
    bench.example.git("branch", "other")
    assert include(bench, *UNCOMMITTED, ref="other").commit
    bench.example.git("commit", "--quiet", "--message=staged")
    with pytest.raises(SourceError, match="'other' is not checked out"):
        include(bench, *UNCOMMITTED, ref="other")
    bare = bench.root / "bare"
    bench.example.git("clone", "--quiet", "--bare", ".", str(bare))
    with pytest.raises(SourceError, match="no checkout"):
        include(bench, *UNCOMMITTED, place=bare)


def test_a_linked_worktree_has_files_and_an_index_of_its_own(bench, checkout):
    linked = bench.root / "linked"
    bench.example.git("worktree", "add", "--quiet", "--detach", str(linked))
    (linked / "kept").write_bytes(b"in the worktree\n")

    imported = include(bench, *UNCOMMITTED, place=linked)

    found = list_files(bench, imported)
    assert found["kept"][1] == "in the worktree"
    assert found["changed"][1] == "old"
    assert imported.repository_id == bench.import_example().repository_id


def test_files_outside_a_sparse_checkout_are_as_the_commit_has_them(bench):
    bench.example.commit({"in/a": b"1", "out/b": b"1"})
    bench.example.git("sparse-checkout", "set", "--cone", "--sparse-index", "in")
    (bench.example.path / "in" / "a").write_bytes(b"2")

    found = list_files(bench, include(bench, *UNCOMMITTED, *UNTRACKED))

    assert found == {"in/a": ("100644", "2"), "out/b": ("100644", "1")}


def test_line_endings_that_git_put_in_are_no_change(bench):
    bench.example.git("config", "core.autocrlf", "true")
    bench.example.commit({"a.txt": b"1\r\n2\r\n", "b.txt": b"1\r\n"})
    head = bench.example.git("rev-parse", "HEAD")
    (bench.example.path / "a.txt").write_bytes(b"1\r\n2\r\n")
    assert include(bench, *UNCOMMITTED).commit == head

    (bench.example.path / "a.txt").write_bytes(b"1\r\n3\r\n")
    assert list_files(bench, include(bench, *UNCOMMITTED))["a.txt"] == ("100644", "1\r\n3\r")


def test_a_file_that_a_filter_made_is_no_change(bench):
    bench.example.git("config", "filter.x.clean", "tr b a")
    bench.example.git("config", "filter.x.smudge", "tr a b")
    bench.example.commit({".gitattributes": b"f filter=x\n", "f": b"bbb\n"})
    head = bench.example.git("rev-parse", "HEAD")
    os.utime(bench.example.path / "f", (10**9, 10**9))
    bench.example.git("update-index", "--refresh")

    assert include(bench, *UNCOMMITTED).commit == head


def test_a_submodule_keeps_its_commit(bench, checkout):
    inner = bench.root / "inner"
    inner.mkdir()
    run_git(inner, "init", "--quiet", "--initial-branch=main")
    run_git(inner, "commit", "--quiet", "--allow-empty", "--message=one")
    first = run_git(inner, "rev-parse", "HEAD")
    bench.example.git("submodule", "--quiet", "add", str(inner), "sub")
    bench.example.git("commit", "--quiet", "--message=submodule")
    sub = checkout / "sub"
    run_git(sub, "commit", "--quiet", "--allow-empty", "--message=two")
    (sub / "f").write_bytes(b"1")

    imported = include(bench, *UNCOMMITTED, *UNTRACKED)

    assert list_files(bench, imported)["sub"] == ("160000", first)
    assert any(note.startswith("sub: a submodule") for note in imported.notes)


@pytest.mark.parametrize("history", list(History))
def test_the_agent_sees_the_commit_as_its_base_with_a_clean_status(bench, checkout, history):
    imported = include(bench, *UNCOMMITTED, *UNTRACKED, history=history)
    start = bench.workspaces.start_snapshot(imported, task_id="t1")

    with bench.workspaces.open_workspace(bench.volume(), task_id="t1", start=start) as workspace:
        place = workspace.paths.workspace
        assert bench.git_inside(place, start, "status", "--porcelain") == ""
        log = bench.git_inside(place, start, "log", "--format=%an %s").splitlines()

    assert log[0] == "Forkyard Files that were not committed"
    assert len(log) == (2 if history is History.FULL else 1)


@pytest.mark.parametrize("history", list(History))
def test_the_patch_applies_to_the_users_files_as_they_were(bench, checkout, history):
    taken = _work(bench, include(bench, *UNCOMMITTED, *UNTRACKED, history=history))
    patch = bench.workspaces.make_patch(taken)

    environment = {**os.environ, "HOME": "/nonexistent", "GIT_CONFIG_GLOBAL": "/dev/null"}
    subprocess.run(["git", "apply"], cwd=checkout, input=patch, check=True, env=environment)

    assert (checkout / "changed").read_bytes() == b"new\r\nmore\n"
    assert not (checkout / "added").exists()


@pytest.mark.parametrize("history", list(History))
def test_a_branch_holds_the_users_work_below_the_agents(bench, checkout, history):
    head = bench.example.git("rev-parse", "HEAD")
    taken = _work(bench, include(bench, *UNCOMMITTED, *UNTRACKED, history=history))

    bench.workspaces.export_branch(taken, str(checkout), branch="fix", message="fix")

    assert bench.example.git("rev-parse", "fix~2") == head
    assert bench.example.git("rev-parse", "fix^{tree}") == taken.source_tree
    bench.example.git("fsck", "--strict", "--no-dangling")


def test_changes_are_written_over_work_that_was_included(bench, checkout):
    taken = _work(bench, include(bench, *UNCOMMITTED, *UNTRACKED))

    bench.workspaces.apply_to_checkout(taken, str(checkout))

    assert (checkout / "changed").read_bytes() == b"new\r\nmore\n"
    assert bench.example.git("diff", "--cached", "--name-only").splitlines() == [
        "added",
        "removed",
        "staged",
    ]


def _work(bench, imported):
    start = bench.workspaces.start_snapshot(imported, task_id="t1")
    with bench.workspaces.open_workspace(bench.volume(), task_id="t1", start=start) as workspace:
        with (workspace.paths.workspace / "changed").open("ab") as file:
            file.write(b"more\n")
        (workspace.paths.workspace / "added").unlink()
        return workspace.take_snapshot().snapshot


def _fingerprint(place):
    found = {}
    for path in sorted(place.rglob("*")):
        status = path.lstat()
        found[os.fsencode(path)] = (status.st_mode, status.st_mtime_ns, status.st_size)
    return found
