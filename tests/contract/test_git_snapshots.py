import os
import shutil
import socket
import subprocess
import time

import pytest
from git_builders import GitBench, run_git

from policies import ChangeKind, EntryKind
from sandbox import SnapshotError
from sandbox.git import GitWorkspaces, WalkLimits

BASE = {
    ".gitignore": b"*.log\nbuild/\n!keep.log\n",
    "a.txt": b"hello\n",
    "crlf.txt": b"a\r\nb\r\n",
    "d/tool.sh": b"#!/bin/sh\n",
    "d/tracked.log": b"tracked although ignored\n",
    "gone": b"x\n",
}


@pytest.fixture
def bench(tmp_path):
    return GitBench(tmp_path)


def describe(top):
    """Tell all that a snapshot promises to keep, by path."""
    found = {}
    for path in top.rglob("*"):
        status = path.lstat()
        content = b""
        if path.is_symlink():
            content = os.fsencode(path.readlink())
        elif path.is_file():
            content = path.read_bytes()
        found[os.fsencode(path.relative_to(top))] = (status.st_mode, content, status.st_mtime_ns)
    return found


NASTY = {
    "new.txt": b"new\n",
    'odd \udcff\n"name\\.txt': b"odd",
    "-rf": b"dash",
    ":(glob)magic": b"m",
    "debug.log": b"ignored",
    "build/out/deep.o": b"\0\1",
    "inner/.git/HEAD": b"ref: refs/heads/main\n",
    "inner/.git/objects/aa/bb": b"loose",
    "inner/code.py": b"print()\n",
    ".GIT/x": b"upper",
    "git~1/y": b"short",
    "big.bin": b"0123456789abcdef" * 200_000,
    "café": b"",
}


def make_nasty(paths):
    top = paths.workspace
    for name, content in NASTY.items():
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_bytes(content)
    (top / "gone").unlink()
    (top / "d" / "tool.sh").chmod(0o4750)
    (top / "out").symlink_to("/etc/passwd")
    (top / "dangling").symlink_to("\udcff\udcfe")
    (top / "d" / "up").symlink_to("..")
    (top / ".gitmodules").symlink_to("a.txt")
    (top / "empty" / "er").mkdir(parents=True)
    (top / "locked" / "in").mkdir(parents=True)
    (top / "locked").chmod(0o000)
    (paths.home / ".cache").mkdir()
    (paths.home / ".cache" / "pip").write_bytes(b"cached")
    (paths.tmp / "t").write_bytes(b"t")
    os.utime(top / "new.txt", ns=(1, 1_234_567_891))
    os.utime(top / "out", ns=(1, 987_654_321), follow_symlinks=False)


def test_a_nasty_tree_comes_back_exactly_in_another_workspace(bench):
    start = bench.start(BASE)
    with bench.workspaces.open_workspace(bench.volume(), task_id="t1", start=start) as one:
        make_nasty(one.paths)
        taken = one.take_snapshot().snapshot
        wanted = describe(bench.root / "volume")

    other = bench.volume("other")
    with bench.workspaces.open_workspace(other, task_id="t2", start=taken) as two:
        assert describe(other) == wanted
        assert two.take_snapshot().snapshot == taken


def test_files_belong_to_the_owner(bench):
    start = bench.start(BASE)

    with bench.workspaces.open_workspace(bench.volume(), task_id="t1", start=start) as workspace:
        top = workspace.paths.workspace
        owners = {one.lstat().st_uid for one in (top, workspace.paths.home, *top.rglob("*"))}

    assert owners == {1000 if os.geteuid() == 0 else os.getuid()}


def test_an_untouched_workspace_gives_no_changes_and_the_same_tree(bench):
    start = bench.start(BASE)

    with bench.workspaces.open_workspace(bench.volume(), task_id="t1", start=start) as workspace:
        first = workspace.take_snapshot()
        second = workspace.take_snapshot()

    assert first.changes.items == ()
    assert first.snapshot.source_tree == start.source_tree
    assert first.snapshot.full_tree == start.full_tree
    assert second.snapshot == first.snapshot


def test_source_and_full_tree_hold_what_they_say(bench):
    start = bench.start(BASE)
    with bench.workspaces.open_workspace(bench.volume(), task_id="t1", start=start) as workspace:
        make_nasty(workspace.paths)
        taken = workspace.take_snapshot().snapshot

    snapshots = bench.snapshots(taken)
    source = set(
        run_git(snapshots, "ls-tree", "-rz", "--name-only", taken.source_tree).split("\0")
    )
    full = set(run_git(snapshots, "ls-tree", "-rz", "--name-only", taken.full_tree).split("\0"))
    assert source - {""} == {
        ".gitignore",
        "a.txt",
        "crlf.txt",
        "d/tool.sh",
        "d/tracked.log",
        "d/up",
        "new.txt",
        'odd \udcff\n"name\\.txt',
        "-rf",
        ":(glob)magic",
        "inner/code.py",
        "big.bin",
        "café",
        "out",
        "dangling",
    }
    assert {"workspace/debug.log", "workspace/build/out/deep.o", "home/.cache/pip", "tmp/t"} < full
    assert not any(".git" in name.lower().split("/") or "git~1" in name for name in full | source)


def test_the_changes_told_are_those_between_the_two_snapshots(bench):
    start = bench.start(BASE)
    with bench.workspaces.open_workspace(bench.volume(), task_id="t1", start=start) as workspace:
        first = workspace.take_snapshot().snapshot
        make_nasty(workspace.paths)
        os.mkfifo(workspace.paths.workspace / "pipe")
        taken = workspace.take_snapshot()

    assert bench.workspaces.changes_between(first, taken.snapshot) == taken.changes
    found = {
        change.path: (change.kind, change.entry, change.ignored) for change in taken.changes.items
    }
    assert found == {
        b"-rf": (ChangeKind.ADDED, EntryKind.FILE, False),
        b".GIT/x": (ChangeKind.ADDED, EntryKind.FILE, True),
        b".gitmodules": (ChangeKind.ADDED, EntryKind.SYMLINK, True),
        b":(glob)magic": (ChangeKind.ADDED, EntryKind.FILE, False),
        b"big.bin": (ChangeKind.ADDED, EntryKind.FILE, False),
        b"build/out/deep.o": (ChangeKind.ADDED, EntryKind.FILE, True),
        b"caf\xc3\xa9": (ChangeKind.ADDED, EntryKind.FILE, False),
        b"d/tool.sh": (ChangeKind.MODE, EntryKind.FILE, False),
        b"d/up": (ChangeKind.ADDED, EntryKind.SYMLINK, False),
        b"dangling": (ChangeKind.ADDED, EntryKind.SYMLINK, False),
        b"debug.log": (ChangeKind.ADDED, EntryKind.FILE, True),
        b"empty/er": (ChangeKind.ADDED, EntryKind.DIRECTORY, False),
        b"git~1/y": (ChangeKind.ADDED, EntryKind.FILE, True),
        b"gone": (ChangeKind.DELETED, EntryKind.FILE, False),
        b"inner/code.py": (ChangeKind.ADDED, EntryKind.FILE, False),
        b"locked/in": (ChangeKind.ADDED, EntryKind.DIRECTORY, False),
        b"new.txt": (ChangeKind.ADDED, EntryKind.FILE, False),
        b'odd \xff\n"name\\.txt': (ChangeKind.ADDED, EntryKind.FILE, False),
        b"out": (ChangeKind.ADDED, EntryKind.SYMLINK, False),
        b"pipe": (ChangeKind.ADDED, EntryKind.OTHER, True),
    }


def test_files_turn_into_directories_and_links_and_back(bench):
    start = bench.start({"f": b"1", "d/x": b"2", "l": b"3"})
    with bench.workspaces.open_workspace(bench.volume(), task_id="t1", start=start) as workspace:
        first = workspace.take_snapshot().snapshot
        top = workspace.paths.workspace
        (top / "f").unlink()
        (top / "f" / "g").mkdir(parents=True)
        (top / "f" / "g" / "h").write_bytes(b"below")
        (top / "d" / "x").unlink()
        (top / "d").rmdir()
        (top / "d").write_bytes(b"now a file")
        (top / "l").unlink()
        (top / "l").symlink_to("d")
        second = workspace.take_snapshot().snapshot
        names = run_git(
            bench.snapshots(second), "ls-tree", "-r", "--name-only", second.source_tree
        )

        workspace.restore(first)
        back = workspace.take_snapshot().snapshot

    assert names.split("\n") == ["d", "f/g/h", "l"]
    assert back.snapshot_id == first.snapshot_id


def test_the_same_size_and_time_does_not_hide_a_change(bench):
    start = bench.start({"a": b"aaaa"})
    with bench.workspaces.open_workspace(bench.volume(), task_id="t1", start=start) as workspace:
        workspace.take_snapshot()
        path = workspace.paths.workspace / "a"
        before = path.stat()
        path.write_bytes(b"bbbb")
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

        changes = workspace.take_snapshot().changes

    assert [change.kind for change in changes.items] == [ChangeKind.MODIFIED]


def test_edits_right_after_a_snapshot_are_always_seen(bench):
    start = bench.start({"a": b"0000"})
    with bench.workspaces.open_workspace(bench.volume(), task_id="t1", start=start) as workspace:
        path = workspace.paths.workspace / "a"
        seen = []
        for number in range(20):
            path.write_bytes(b"%04d" % (number + 1))
            seen.append(len(workspace.take_snapshot().changes.items))

    assert seen == [1] * 20


def test_what_no_snapshot_can_hold_is_listed_with_the_reason(bench):
    start = bench.start(BASE)
    limits = WalkLimits(file_bytes=1000, depth=4)
    workspaces = GitWorkspaces(bench.repositories, owner=(1000, 1000), limits=limits)
    with workspaces.open_workspace(bench.volume(), task_id="t1", start=start) as workspace:
        top = workspace.paths.workspace
        (top / ".gitignore").unlink()
        os.mkfifo(top / ".gitignore")
        with socket.socket(socket.AF_UNIX) as server:
            place = os.open(top, os.O_RDONLY)
            server.bind(f"/proc/self/fd/{place}/socket")
            os.close(place)
        with (top / "sparse").open("wb") as file:
            file.truncate(2 * 1024**3)
        (top / "1" / "2" / "3" / "4").mkdir(parents=True)
        taken = workspace.take_snapshot().snapshot

    reasons = {one.path: one.reason for one in taken.coverage.left_out}
    assert {p: r for p, r in reasons.items() if not p.startswith("workspace/.git/")} == {
        "workspace/.gitignore": "a named pipe",
        "workspace/1/2/3/4": "deeper than 4 directories",
        "workspace/socket": "a socket",
        "workspace/sparse": "larger than 1000 bytes (2147483648)",
    }
    assert "hard links" in taken.coverage.not_covered


def test_too_many_entries_stop_the_snapshot_and_record_nothing(bench):
    start = bench.start(BASE)
    limits = WalkLimits(entries=100)
    workspaces = GitWorkspaces(bench.repositories, owner=(1000, 1000), limits=limits)
    with workspaces.open_workspace(bench.volume(), task_id="t1", start=start) as workspace:
        for number in range(100):
            (workspace.paths.workspace / f"f{number}").touch()

        with pytest.raises(SnapshotError, match="more than 100"):
            workspace.take_snapshot()

    refs = run_git(bench.snapshots(start), "for-each-ref", "--format=%(refname)")
    assert "refs/forkyard/t1" not in refs


def test_gc_keeps_every_snapshot_also_one_that_was_rolled_back(bench):
    start = bench.start(BASE)
    with bench.workspaces.open_workspace(bench.volume(), task_id="t1", start=start) as workspace:
        first = workspace.take_snapshot().snapshot
        make_nasty(workspace.paths)
        held = workspace.take_snapshot().snapshot
        workspace.restore(first)
        (workspace.paths.workspace / "after").write_bytes(b"1")
        last = workspace.take_snapshot().snapshot

        run_git(bench.snapshots(start), "gc", "--quiet", "--prune=now")

        for snapshot in (held, start, last, first):
            workspace.restore(snapshot)
    history = run_git(bench.snapshots(start), "log", "--format=%H", "refs/forkyard/t1")
    assert history.split() == [last.commit, held.commit, first.commit, start.commit]


def test_after_a_restart_the_chain_goes_on_where_it_was(bench):
    start = bench.start(BASE)
    with bench.workspaces.open_workspace(bench.volume(), task_id="t1", start=start) as workspace:
        first = workspace.take_snapshot().snapshot
        make_nasty(workspace.paths)
        second = workspace.take_snapshot().snapshot

    with bench.workspaces.open_workspace(bench.volume(), task_id="t1", start=first) as workspace:
        (workspace.paths.workspace / "other").write_bytes(b"1")
        third = workspace.take_snapshot().snapshot

    assert run_git(bench.snapshots(start), "rev-parse", f"{third.commit}^") == second.commit
    names = run_git(bench.snapshots(start), "ls-tree", "-r", "--name-only", third.source_tree)
    assert "new.txt" not in names
    assert "other" in names


def test_a_stale_lock_of_a_killed_writer_is_no_obstacle(bench):
    start = bench.start(BASE)
    lock = bench.snapshots(start) / "refs" / "forkyard" / "t1.lock"
    lock.parent.mkdir(parents=True)
    lock.touch()

    with bench.workspaces.open_workspace(bench.volume(), task_id="t1", start=start) as workspace:
        assert workspace.take_snapshot().snapshot.commit


def test_one_task_cannot_restore_a_snapshot_of_another_base(bench):
    start = bench.start({"a": b"1"})
    with bench.workspaces.open_workspace(bench.volume(), task_id="t1", start=start) as workspace:
        other = bench.start({"a": b"2"})

        with pytest.raises(SnapshotError, match="this workspace from"):
            workspace.restore(other)


def test_the_two_starts_of_one_base_are_one_snapshot(bench):
    start = bench.start(BASE)

    again = bench.workspaces.start_snapshot(bench.import_example(), task_id="t2")

    assert again == start


def test_an_empty_base_can_be_worked_on(bench):
    start = bench.start()
    with bench.workspaces.open_workspace(bench.volume(), task_id="t1", start=start) as workspace:
        (workspace.paths.workspace / "first").write_bytes(b"1")
        taken = workspace.take_snapshot()

    assert [change.path for change in taken.changes.items] == [b"first"]
    assert b"+++ b/first" in bench.workspaces.make_patch(taken.snapshot)


def test_a_submodule_stays_as_it_was_whatever_the_agent_does(bench):
    commit = bench.example.commit({"a": b"1"})
    bench.example.git("update-index", "--add", "--cacheinfo", f"160000,{commit},lib/sub")
    (bench.example.path / "lib" / "sub").mkdir(parents=True)
    bench.example.git("commit", "--quiet", "--message=submodule")
    start = bench.workspaces.start_snapshot(bench.import_example(), task_id="t1")

    with bench.workspaces.open_workspace(bench.volume(), task_id="t1", start=start) as workspace:
        top = workspace.paths.workspace
        assert bench.git_inside(top, start, "status", "--porcelain") == ""
        (top / "lib" / "sub" / "inside").write_bytes(b"1")
        subprocess.run(["git", "init", "-q", str(top / "nested")], check=True)
        (top / "nested" / "f").write_bytes(b"2")
        taken = workspace.take_snapshot()

    found = {change.path: change.ignored for change in taken.changes.items}
    assert found == {b"lib/sub/inside": True, b"nested/f": False}
    listing = run_git(
        bench.snapshots(start), "ls-tree", "-r", taken.snapshot.source_tree, "lib", "nested"
    )
    assert f"160000 commit {commit}\tlib/sub" in listing
    assert "nested/f" in listing


def test_a_file_over_a_submodules_folder_hides_it_and_no_longer(bench):
    commit = bench.example.commit({"lib/x": b"1"})
    bench.example.git("update-index", "--add", "--cacheinfo", f"160000,{commit},lib/a/sub")
    bench.example.git("commit", "--quiet", "--message=submodule")
    start = bench.workspaces.start_snapshot(bench.import_example(), task_id="t1")
    with bench.workspaces.open_workspace(bench.volume(), task_id="t1", start=start) as workspace:
        top = workspace.paths.workspace
        shutil.rmtree(top / "lib")
        (top / "lib").write_bytes(b"in the way")
        hidden = workspace.take_snapshot().snapshot
        (top / "lib").unlink()
        (top / "lib").mkdir()
        (top / "lib" / "a").write_bytes(b"still in the way")
        deeper = workspace.take_snapshot().snapshot
        (top / "lib" / "a").unlink()
        (top / "lib" / "a" / "sub").mkdir(parents=True)
        (top / "lib" / "x").write_bytes(b"1")
        back = workspace.take_snapshot().snapshot

    assert back.source_tree == start.source_tree
    for one in (hidden, deeper):
        assert b"160000" in bench.workspaces.make_patch(one)


def test_a_damaged_object_is_noticed_at_restore(bench):
    start = bench.start({"a": b"1"})
    with bench.workspaces.open_workspace(bench.volume(), task_id="t1", start=start) as workspace:
        taken = workspace.take_snapshot().snapshot
        forged = taken.__class__(
            **{
                name: getattr(taken, name)
                for name in taken.__dataclass_fields__
                if name != "commit"
            },
            commit=start.commit,
        )

        with pytest.raises(SnapshotError, match="is not sha256"):
            workspace.restore(forged)


def test_half_packs_of_killed_writers_are_deleted_and_others_are_not(bench):
    start = bench.start(BASE)
    place = bench.snapshots(start) / "objects" / "pack"
    for name, age_seconds in (("tmp_pack_old", 90_000), ("tmp_pack_new", 10)):
        (place / name).touch()
        os.utime(place / name, times=(0, time.time() - age_seconds))

    bench.repositories.tidy(start.repository_id)

    assert [path.name for path in place.glob("tmp_*")] == ["tmp_pack_new"]


def test_joining_packs_loses_nothing_and_disturbs_nobody(bench):
    start = bench.start(BASE)
    taken = []
    with bench.workspaces.open_workspace(bench.volume(), task_id="t1", start=start) as workspace:
        for number in range(12):
            (workspace.paths.workspace / "n").write_bytes(b"%d" % number)
            taken.append(workspace.take_snapshot().snapshot)
            bench.repositories.tidy(start.repository_id, packs_kept=5)

        for snapshot in taken:
            workspace.restore(snapshot)
    packs = list((bench.snapshots(start) / "objects" / "pack").glob("*.pack"))
    assert len(packs) <= 6
    assert bench.repositories.tidy(start.repository_id) is False
