"""Repositories as people have them: submodules, LFS, partial and sparse clones, stale locks."""

import os
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest
from git_builders import ExampleRepository, GitBench, run_git

from sandbox.errors import SourceError
from sandbox.git.locks import hold_lock
from sandbox.git.worktrees import list_entries
from sandbox.snapshot import History
from sandbox.source import Source, SourceKind

POINTER = (
    b"version https://git-lfs.github.com/spec/v1\n"
    b"oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n"
)


@pytest.fixture
def bench(tmp_path):
    return GitBench(tmp_path)


def import_path(bench, place, **more):
    source = Source(kind=SourceKind.PATH, location=str(place), **more)
    return bench.repositories.import_source(source)


def start(bench, imported):
    return bench.workspaces.start_snapshot(imported, task_id="t1")


def test_a_submodule_is_an_empty_folder_and_said_to_be_one(bench):
    inner = ExampleRepository(bench.root / "inner")
    inner.commit({"f": b"1"})
    bench.example.git("submodule", "--quiet", "add", str(inner.path), "sub")
    bench.example.commit()

    imported = bench.import_example()

    assert imported.notes == ("sub: a submodule: its commit is kept, its folder is empty",)
    begun = start(bench, imported)
    with bench.workspaces.open_workspace(bench.volume(), task_id="t1", start=begun) as workspace:
        assert list((workspace.paths.workspace / "sub").iterdir()) == []
        assert bench.git_inside(workspace.paths.workspace, begun, "status", "--porcelain") == ""
    assert list(list_entries(bench.snapshots(begun))) == []


def test_files_of_lfs_are_pointers_and_no_filter_runs(bench):
    attributes = b"*.bin filter=lfs diff=lfs merge=lfs -text\n"
    bench.example.commit({".gitattributes": attributes, "big.bin": POINTER})
    canary = bench.root / "canary"
    bench.example.git("config", "filter.lfs.smudge", f"touch {canary}; cat")
    bench.example.git("config", "filter.lfs.process", f"touch {canary}; exit 1")
    bench.example.git("config", "filter.lfs.required", "true")

    imported = bench.import_example()

    assert imported.notes == (
        "files that git-lfs keeps are there as pointers: no filter ever runs",
    )
    begun = start(bench, imported)
    with bench.workspaces.open_workspace(bench.volume(), task_id="t1", start=begun) as workspace:
        assert (workspace.paths.workspace / "big.bin").read_bytes() == POINTER
    assert not canary.exists()


def test_a_partial_clone_is_refused_with_the_remedy_and_fetches_nothing(bench):
    bench.example.commit({"a": b"1"})
    bench.example.commit({"a": b"2"})
    bench.example.git("config", "uploadpack.allowFilter", "true")
    clone, canary = bench.root / "clone", bench.root / "canary"
    url = f"file://{bench.example.path}"
    run_git(bench.root, "clone", "--quiet", "--no-checkout", "--filter=blob:none", url, "clone")
    script = bench.root / "script"
    script.write_text(f'#!/bin/sh\ntouch {canary}\nexec git-upload-pack "$@"\n')
    script.chmod(0o755)
    run_git(clone, "config", "remote.origin.uploadpack", str(script))

    with pytest.raises(SourceError, match="partial clone without some objects"):
        import_path(bench, clone)

    assert not canary.exists()
    assert list(bench.root.glob("home/repos/*/base/*")) == []
    run_git(clone, "fetch", "--quiet", "--refetch", "--no-filter")
    assert import_path(bench, clone).commit == bench.example.git("rev-parse", "HEAD")


def test_a_shallow_clone_says_so_and_how_to_deepen_it(bench):
    old = bench.example.commit({"a": b"1"})
    bench.example.commit({"a": b"2"})
    url = f"file://{bench.example.path}"
    run_git(bench.root, "clone", "--quiet", "--depth=1", url, "clone")
    clone = bench.root / "clone"

    assert import_path(bench, clone).notes == (
        "the source is a shallow clone: a part of the past is missing",
    )
    assert import_path(bench, clone, history=History.SHALLOW).notes == ()
    with pytest.raises(SourceError, match="git fetch --unshallow"):
        import_path(bench, clone, ref=old)


def test_a_sparse_checkout_is_a_source_with_all_files(bench):
    bench.example.commit({"in/a": b"1", "out/b": b"2"})
    bench.example.git("sparse-checkout", "set", "--cone", "--sparse-index", "in")
    assert not (bench.example.path / "out").exists()

    begun = start(bench, bench.import_example())

    with bench.workspaces.open_workspace(bench.volume(), task_id="t1", start=begun) as workspace:
        assert (workspace.paths.workspace / "out" / "b").read_bytes() == b"2"
        assert not workspace.take_snapshot().changes.items


def test_line_endings_stay_as_the_commit_has_them_whatever_attributes_say(bench):
    bench.example.git("config", "core.autocrlf", "false")
    lines = b"".join(b"line %d\r\n" % number for number in range(50))
    bench.example.commit({"crlf.txt": lines, "mixed.txt": b"a\r\nb\n"})
    (bench.example.path / ".gitattributes").write_bytes(b"*.txt text eol=crlf ident\n")
    bench.example.git("add", ".gitattributes")
    bench.example.git("commit", "--quiet", "--message=attributes")
    bench.example.git("config", "core.autocrlf", "true")
    begun = start(bench, bench.import_example())
    with bench.workspaces.open_workspace(bench.volume(), task_id="t1", start=begun) as workspace:
        top = workspace.paths.workspace
        assert (top / "crlf.txt").read_bytes() == lines
        assert (top / "mixed.txt").read_bytes() == b"a\r\nb\n"
        (top / "crlf.txt").write_bytes(lines.replace(b"line 7\r", b"line seven\r"))
        taken = workspace.take_snapshot().snapshot
    patch = bench.workspaces.make_patch(taken)

    assert [line for line in patch.splitlines() if line[:1] in b"+-" and line[:3] != b"+++"] == [
        b"--- a/crlf.txt",
        b"-line 7",
        b"+line seven",
    ]
    plain = bench.root / "plain"
    plain.mkdir()
    (plain / "crlf.txt").write_bytes(lines)
    subprocess.run(["git", "apply"], cwd=plain, input=patch, check=True)
    assert b"line seven\r\n" in (plain / "crlf.txt").read_bytes()


def test_repositories_inside_the_workspace_keep_their_files(bench):
    begun = bench.start({"a": b"1"})
    with bench.workspaces.open_workspace(bench.volume(), task_id="t1", start=begun) as workspace:
        top = workspace.paths.workspace
        ExampleRepository(top / "inner").commit({"f": b"committed inside"})
        ExampleRepository(top / "child")
        (top / "child" / "g").write_bytes(b"never committed")
        taken = workspace.take_snapshot().snapshot
        shutil.rmtree(top / "inner")
        workspace.restore(taken)
        safe = {
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": "safe.directory",
            "GIT_CONFIG_VALUE_0": str(top / "inner"),
        }
        assert run_git(top / "inner", "log", "--format=%s", extra=safe) == "change"

    read = bench.workspaces.read_source_file
    assert read(taken, "inner/f") == b"committed inside"
    assert read(taken, "child/g") == b"never committed"


def test_locks_in_the_users_repository_are_no_obstacle_and_stay(bench):
    bench.example.commit({"a": b"1"})
    locks = [bench.example.path / ".git" / name for name in ("index.lock", "config.lock")]
    locks += [bench.example.path / ".git" / "packed-refs.lock"]
    for lock in locks:
        lock.write_bytes(b"held")

    with ThreadPoolExecutor(4) as pool:
        commits = set(pool.map(lambda _: bench.import_example().commit, range(8)))

    assert len(commits) == 1
    assert all(lock.read_bytes() == b"held" for lock in locks)


def test_locks_of_killed_processes_in_our_repositories_are_no_obstacle(bench):
    begun = bench.start({"a": b"1"})
    ours = bench.snapshots(begun)
    names = ("index.lock", "config.lock", "packed-refs.lock", "HEAD.lock", "gc.pid")
    for name in (*names, "objects/pack/multi-pack-index.lock", "refs/forkyard/t1.lock"):
        (ours / name).parent.mkdir(parents=True, exist_ok=True)
        (ours / name).write_bytes(b"1")
        os.utime(ours / name, (1, 1))

    with bench.workspaces.open_workspace(bench.volume(), task_id="t1", start=begun) as workspace:
        for number in range(4):
            (workspace.paths.workspace / "a").write_bytes(b"%d" % number)
            workspace.take_snapshot()
        assert bench.repositories.tidy(begun.repository_id, packs_kept=1)


def test_the_lock_of_a_living_writer_is_waited_for(bench):
    begun = bench.start({"a": b"1"})
    lock = bench.snapshots(begun).parent / "locks" / "refs.forkyard.t1"
    with (
        bench.workspaces.open_workspace(bench.volume(), task_id="t1", start=begun) as workspace,
        ThreadPoolExecutor(1) as pool,
    ):
        (workspace.paths.workspace / "a").write_bytes(b"2")
        with hold_lock(lock):
            waiting = pool.submit(workspace.take_snapshot)
            with pytest.raises(TimeoutError):
                waiting.result(timeout=0.3)
        assert waiting.result(timeout=60).changes.items


def test_half_made_worktree_entries_are_ended(bench):
    begun = bench.start({"a": b"1"})
    entries = bench.snapshots(begun) / "worktrees"
    for name, reason in (("ours", "forkyard t0"), ("theirs", "someone else")):
        (entries / name).mkdir(parents=True)
        (entries / name / "locked").write_text(reason)

    with bench.workspaces.open_workspace(bench.volume(), task_id="t1", start=begun):
        pass

    assert [path.name for path in entries.iterdir()] == ["theirs"]


def test_snapshots_go_on_while_refs_and_packs_are_joined(bench):
    begun = bench.start({"a": b"1"})
    ours = bench.snapshots(begun)

    def work(number):
        taken = []
        volume, task = bench.volume(f"v{number}"), f"w{number}"
        with bench.workspaces.open_workspace(volume, task_id=task, start=begun) as workspace:
            for turn in range(5):
                (workspace.paths.workspace / "a").write_bytes(b"%d %d" % (number, turn))
                taken.append(workspace.take_snapshot().snapshot)
            for snapshot in taken:
                workspace.restore(snapshot)
        return len(taken)

    with ThreadPoolExecutor(3) as pool:
        results = [pool.submit(work, number) for number in range(3)]
        while not all(one.done() for one in results):
            run_git(ours, "pack-refs", "--all")
            bench.repositories.tidy(begun.repository_id, packs_kept=1)

    assert [one.result() for one in results] == [5, 5, 5]
