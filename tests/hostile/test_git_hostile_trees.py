"""Trees that hostile code left behind; no container is needed to make them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from git_builders import GitBench

from sandbox import DiskFullError

AGENT_CONFIG = """
[core]
\tfsmonitor = touch {marker}; false
\thooksPath = {hooks}
\tsshCommand = touch {marker}
[filter "evil"]
\tclean = touch {marker}; cat
\tsmudge = touch {marker}; cat
\tprocess = touch {marker}
[diff "evil"]
\tcommand = touch {marker}
\ttextconv = touch {marker}; cat
[diff]
\texternal = touch {marker}
"""

TESTS = Path(__file__).parents[1]


@pytest.fixture
def bench(tmp_path):
    return GitBench(tmp_path)


def test_nothing_that_the_agent_configured_runs_on_the_host(bench):
    marker = bench.root / "canary"
    hooks = bench.root / "hooks"
    hooks.mkdir()
    start = bench.start({"a": b"1", ".gitattributes": b"* filter=evil diff=evil\n"})
    with bench.workspaces.open_workspace(bench.volume(), task_id="t1", start=start) as workspace:
        top = workspace.paths.workspace
        first = workspace.take_snapshot().snapshot
        nested = top / "sub"
        subprocess.run(["git", "init", "-q", str(nested)], check=True)
        config = AGENT_CONFIG.format(marker=marker, hooks=hooks)
        for repository in (top / ".git", nested / ".git"):
            with (repository / "config").open("a") as file:
                file.write(config)
            (repository / "hooks").mkdir(exist_ok=True)
            for hook in (
                "post-checkout",
                "pre-commit",
                "reference-transaction",
                "post-index-change",
            ):
                (repository / "hooks" / hook).write_text(f"#!/bin/sh\ntouch {marker}\n")
                (repository / "hooks" / hook).chmod(0o755)
        (nested / ".gitattributes").write_text("* filter=evil diff=evil\n")
        (nested / "f").write_bytes(b"1")
        (top / ".gitmodules").write_text(
            '[submodule "sub"]\n\tpath = sub\n\turl = ext::touch\n\tignore = none\n'
        )
        (top / "a").write_bytes(b"2")

        taken = workspace.take_snapshot()
        bench.workspaces.make_patch(taken.snapshot)
        bench.workspaces.changes_between(start, taken.snapshot)
        workspace.restore(first)
        workspace.restore(taken.snapshot)
    with bench.workspaces.open_workspace(
        bench.volume("v"), task_id="t2", start=taken.snapshot
    ) as fork:
        fork.take_snapshot()

    assert not marker.exists()


def test_a_workspace_whose_git_points_elsewhere_changes_nothing_there(bench):
    start = bench.start({"a": b"1"})
    snapshots = bench.snapshots(start)
    with bench.workspaces.open_workspace(bench.volume(), task_id="t1", start=start) as workspace:
        top = workspace.paths.workspace
        subprocess.run(["rm", "-rf", str(top / ".git")], check=True)
        (top / ".git").write_text(f"gitdir: {snapshots}\n")
        before = (snapshots / "config").read_bytes()

        workspace.take_snapshot()
        (top / ".git").unlink()
        (top / ".git").symlink_to(snapshots)
        taken = workspace.take_snapshot().snapshot

    assert (snapshots / "config").read_bytes() == before
    assert taken.coverage.left_out == ()


def test_links_to_the_host_are_kept_as_links_and_never_opened(bench):
    secret = bench.root / "secret"
    secret.mkdir()
    (secret / "passwd").write_bytes(b"hunter2")
    start = bench.start({"a": b"1"})
    with bench.workspaces.open_workspace(bench.volume(), task_id="t1", start=start) as workspace:
        top = workspace.paths.workspace
        (top / "file").symlink_to(secret / "passwd")
        (top / "dir").symlink_to(secret)
        (top / "magic").symlink_to("/proc/self/root/etc/passwd")
        (top / "fd").symlink_to("/dev/fd/0")
        taken = workspace.take_snapshot()

    objects = bench.snapshots(start)
    everything = subprocess.run(
        ["git", "cat-file", "--batch-all-objects", "--batch"],
        cwd=objects,
        capture_output=True,
        check=True,
    ).stdout
    assert b"hunter2" not in everything
    assert {change.path for change in taken.changes.items} == {b"file", b"dir", b"magic", b"fd"}
    assert (secret / "passwd").read_bytes() == b"hunter2"


def test_a_tree_of_any_depth_is_deleted(bench):
    start = bench.start({"a": b"1"})
    volume = bench.volume()
    with bench.workspaces.open_workspace(volume, task_id="t1", start=start) as workspace:
        place = os.open(workspace.paths.workspace, os.O_RDONLY)
        for _ in range(3000):
            os.mkdir("deep", dir_fd=place)
            below = os.open("deep", os.O_RDONLY, dir_fd=place)
            os.close(place)
            place = below
        os.close(place)
        taken = workspace.take_snapshot().snapshot

        assert [one.reason for one in taken.coverage.left_out] == ["deeper than 200 directories"]
        workspace.restore(start)

    assert not volume.exists()


def test_deleting_never_follows_a_link(bench):
    outside = bench.root / "outside"
    outside.mkdir()
    (outside / "keep").touch()
    start = bench.start({"a": b"1"})
    with bench.workspaces.open_workspace(bench.volume(), task_id="t1", start=start) as workspace:
        (workspace.paths.workspace / "d").mkdir()
        (workspace.paths.workspace / "d" / "out").symlink_to(outside)
        (workspace.paths.home / "out").symlink_to(outside)

    assert (outside / "keep").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="the ordinary case is then tested everywhere else")
def test_directories_closed_to_their_owner_are_no_obstacle_without_root(bench):
    program = """
import os, sys
from pathlib import Path
from git_builders import GitBench
os.setgroups([]); os.setgid(1000); os.setuid(1000)
bench = GitBench(Path(sys.argv[1]))
start = bench.start({"d/a": b"1", "e/f/g": b"2"})
volume = bench.volume()
with bench.workspaces.open_workspace(volume, task_id="t1", start=start) as workspace:
    top = workspace.paths.workspace
    first = workspace.take_snapshot().snapshot
    (top / "d" / "a").chmod(0)
    (top / "e" / "f").chmod(0o400)
    (top / "e").chmod(0)
    (top / "d").chmod(0o500)
    taken = workspace.take_snapshot()
    print(sorted((c.path, oct(c.mode)) for c in taken.changes.items))
    print(oct((top / "e").stat().st_mode & 0o7777), oct((top / "d").stat().st_mode & 0o7777))
    workspace.restore(first)
    workspace.restore(taken.snapshot)
    print(workspace.take_snapshot().snapshot == taken.snapshot)
print(volume.exists())
"""
    place = bench.root / "theirs"
    place.mkdir()
    os.chown(place, 1000, 1000)
    for parent in [place, *place.parents][:4]:
        if not parent.stat().st_mode & 0o001:
            parent.chmod(parent.stat().st_mode | 0o011)
    done = subprocess.run(
        [sys.executable, "-c", program, str(place / "bench")],
        env={**os.environ, "PYTHONPATH": f"{TESTS}:{TESTS.parent}"},
        capture_output=True,
        check=False,
    )

    assert done.stderr == b""
    assert done.stdout.decode().splitlines() == [
        "[(b'd', '0o500'), (b'd/a', '0o0'), (b'e', '0o0'), (b'e/f', '0o400')]",
        "0o0 0o500",
        "True",
        "False",
    ]


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small file system")
def test_a_full_volume_is_called_full_and_nothing_is_left_registered(bench):
    start = bench.start({"big": b"x" * 3_000_000})
    volume = bench.volume()
    subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "forkyard-test", str(volume)], check=True
    )
    try:
        with (
            pytest.raises(DiskFullError),
            bench.workspaces.open_workspace(volume, task_id="t1", start=start),
        ):
            pass

        assert list(volume.iterdir()) == []
    finally:
        subprocess.run(["umount", str(volume)], check=True)
    assert list((bench.snapshots(start) / "worktrees").glob("*")) == []
