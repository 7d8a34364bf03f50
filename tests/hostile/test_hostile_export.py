"""What an agent planted, on its way into the user's repository.

Cases 22, 24, 34, 36 and 37 of the list of attacks, for exports: nothing reaches git's own files,
no link is followed, nothing of the user's runs, and what the user's tools would run is flagged.
"""

import os
import stat
import subprocess
from dataclasses import replace

import pytest
from git_builders import GitBench, run_git
from host_setting import make_docker_setting
from sandbox_builders import run_shell

from policies import flag_change
from sandbox import CheckoutConflictError, RepositoryError, SourceError

PLANTED = r"""
mkdir -p .git/hooks sub/.git/hooks .vscode .husky .github/workflows
for hook in .git/hooks/post-checkout sub/.git/hooks/post-checkout .husky/post-checkout; do
  printf '#!/bin/sh\ntouch /tmp/forkyard-canary\n' > $hook; chmod 755 $hook
done
printf '[core]\n\thooksPath = .husky\n\tfsmonitor = .husky/post-checkout\n' > .git/config
echo 'touch /tmp/forkyard-canary' > .envrc
echo '{}' > .vscode/tasks.json
echo 'on: push' > .github/workflows/ci.yml
ln -s /etc/shadow out.txt
ln -s / d
ln -s /proc/self/root/etc/passwd magic
ln -s .git/hooks hooks
"""
FLAGGED = [
    b".envrc", b".github/workflows/ci.yml", b".husky/post-checkout", b".vscode/tasks.json",
    b"d", b"hooks", b"magic", b"out.txt",
]  # fmt: skip


@pytest.fixture
def bench(tmp_path):
    return GitBench(tmp_path)


@pytest.fixture
def start(bench):
    return bench.start({"README": b"hello\n", "src/one.py": b"ONE = 1\n"})


@pytest.fixture
def changed(bench, start):
    with bench.workspaces.open_workspace(bench.volume(), task_id="t1", start=start) as workspace:
        work = workspace.paths.workspace
        (work / "README").write_bytes(b"changed\n")
        (work / "src/one.py").write_bytes(b"ONE = 2\n")
        (work / "src/run").write_bytes(b"#!/bin/sh\n")
        (work / "src/run").chmod(0o6755)
        (work / "new").mkdir()
        (work / "new/file").write_bytes(b"new\n")
        return workspace.take_snapshot().snapshot


def git_state(root):
    """Return every file of a repository's own folder but its objects."""
    folder = root / ".git"
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and "objects" not in path.parts
    }


def names(root):
    return sorted(
        os.fsencode(path.relative_to(root)) for path in root.rglob("*") if ".git" not in path.parts
    )


@pytest.mark.engine
@pytest.mark.slow
def test_planted_hooks_never_leave_the_task_and_what_tools_run_is_flagged(
    engine, tmp_path_factory
):
    location = tmp_path_factory.mktemp("code")
    setting = make_docker_setting(location, engine=engine, home=tmp_path_factory.mktemp("home"))
    before = git_state(location)
    with setting.host.open_sandbox(setting.spec()) as sandbox:
        assert run_shell(sandbox, PLANTED).ok
        taken = sandbox.take_snapshot()

    written = setting.host.apply_to_checkout(taken.snapshot, str(location))

    assert list(written) == FLAGGED
    flags = [flag_change(one) for one in taken.changes.items if not one.ignored]
    assert [one.path for one in flags if one is not None] == FLAGGED
    assert git_state(location) == before
    assert not (location / "sub").exists()
    assert (location / "out.txt").is_symlink()
    setting.host.export_branch(taken.snapshot, str(location), branch="fix", message="Fix")
    listed = run_git(location, "ls-tree", "-r", "-z", "--name-only", "fix").split("\0")
    assert not [name for name in listed if ".git/" in name or name.startswith("sub/")]


def hash_tree(bench, snapshot, *entries):
    """Store a tree as git itself never would; entries are (mode, name, object id)."""
    body = b"".join(
        b"%s %s\0%s" % (mode.encode(), name, bytes.fromhex(oid)) for mode, name, oid in entries
    )
    done = subprocess.run(
        ["git", "hash-object", "-t", "tree", "-w", "--literally", "--stdin"],
        cwd=bench.snapshots(snapshot), input=body, capture_output=True, check=True,
    )  # fmt: skip
    return done.stdout.decode().strip()


def with_entry(bench, start, mode, path):
    """Return the start with one more entry at a path that git would refuse."""
    snapshots = bench.snapshots(start)
    blob = run_git(snapshots, "rev-parse", f"{start.base_commit}:README")
    oid = start.base_commit if mode == "160000" else blob
    name, *above = reversed(path.split(b"/"))
    for directory in above:
        oid, name, mode = hash_tree(bench, start, (mode, name, oid)), directory, "40000"
    base = run_git(snapshots, "rev-parse", f"{start.base_commit}:src")
    entries = [(mode, name, oid), ("100644", b"README", blob), ("40000", b"src", base)]
    tree = hash_tree(bench, start, *sorted(entries, key=lambda one: one[1]))
    return replace(start, source_tree=tree)


@pytest.mark.parametrize(
    ("mode", "path"),
    [
        ("100755", b".git/hooks/post-checkout"),
        ("100644", b".git"),
        ("120000", b".git"),
        ("100644", b".GIT/config"),
        ("100644", b"git~1/config"),
        ("100644", b".git /config"),
        ("100644", b".git./config"),
        ("100644", b".git::$INDEX_ALLOCATION/config"),
        ("100644", ".g\u200cit/config".encode()),
        ("100644", b"sub/.git/config"),
        ("100644", b"a\\.git\\config"),
        ("100644", b"../escape"),
        ("100644", b"./dot"),
        ("120000", b".gitmodules"),
        ("160000", b"module"),
    ],
)
def test_a_tree_with_a_path_of_gits_own_reaches_neither_checkout_nor_branch(
    bench, start, mode, path
):
    evil = with_entry(bench, start, mode, path)
    place = bench.example.path
    before = git_state(place), names(bench.root / "example")

    with pytest.raises(CheckoutConflictError, match=r"refuses its name|never exported"):
        bench.workspaces.apply_to_checkout(evil, str(place))
    with pytest.raises(RepositoryError, match=r"refuses its name|never exported"):
        bench.workspaces.export_branch(evil, str(place), branch="fix", message="Fix")

    assert (git_state(place), names(bench.root / "example")) == before
    assert not (bench.root / "escape").exists()


def test_a_path_that_ends_in_a_carriage_return_is_only_that(bench, start):
    evil = with_entry(bench, start, "100644", b"name\r")

    assert bench.workspaces.apply_to_checkout(evil, str(bench.example.path)) == (b"name\r",)


@pytest.mark.parametrize("place", ["README", "src", "src/one.py", "new", "new/file"])
def test_a_link_of_the_same_content_in_the_way_is_never_followed(bench, changed, place):
    root, outside = bench.example.path, bench.root / "outside"
    target = root / place
    if target.exists():
        target.rename(outside)
    else:
        outside.mkdir()
    target.parent.mkdir(exist_ok=True)
    target.symlink_to(outside)
    before = names(bench.root / "outside"), names(root)

    with pytest.raises(CheckoutConflictError):
        bench.workspaces.apply_to_checkout(changed, str(root))

    assert (names(bench.root / "outside"), names(root)) == before
    assert outside.is_dir() or outside.read_bytes() in {b"hello\n", b"ONE = 1\n"}


@pytest.mark.timeout(20)
def test_a_pipe_in_place_of_a_file_does_not_hold_us_up(bench, changed):
    (bench.example.path / "README").unlink()
    os.mkfifo(bench.example.path / "README")

    with pytest.raises(CheckoutConflictError):
        bench.workspaces.apply_to_checkout(changed, str(bench.example.path))


def test_bits_that_change_the_user_are_not_carried(bench, changed):
    bench.workspaces.apply_to_checkout(changed, str(bench.example.path))

    mode = stat.S_IMODE((bench.example.path / "src/run").stat().st_mode)
    assert mode & 0o7000 == 0
    assert mode & stat.S_IXUSR


def test_no_program_that_the_users_configuration_names_runs(bench, changed):
    root, canary = bench.example.path, bench.root / "canary"
    program = bench.root / "program"
    program.write_text(f"#!/bin/sh\necho $0 $* >> {canary}\ncat\n")
    program.chmod(0o755)
    for hook in ("post-checkout", "post-index-change", "reference-transaction", "pre-commit"):
        (root / ".git/hooks").mkdir(exist_ok=True)
        (root / ".git/hooks" / hook).symlink_to(program)
    (root / ".git/info").mkdir(exist_ok=True)
    (root / ".git/info/attributes").write_text("* filter=evil diff=evil merge=evil\n")
    for key in (
        "core.fsmonitor", "core.sshCommand", "core.pager", "core.editor", "diff.external",
        "filter.evil.clean", "filter.evil.smudge", "filter.evil.process", "diff.evil.textconv",
        "diff.evil.command", "credential.helper", "core.alternateRefsCommand", "gpg.program",
    ):  # fmt: skip
        run_git(root, "config", key, str(program))

    bench.workspaces.apply_to_checkout(changed, str(root))
    bench.workspaces.export_branch(changed, str(root), branch="fix", message="Fix")

    assert not canary.exists(), canary.read_text()


@pytest.mark.parametrize(
    "branch",
    [
        "-x", "--output=/host", "--upload-pack=x", "a..b", "refs/heads/a..b", "HEAD", "@", "", ".",
        "a.lock", "../../config", "/abs", "a//b", "a/.b", "a b", "a\nb", "a\0b", "a^", "a~1",
        "a:b", "a?", "a*", "a[", "a\\b", "a@{1}", "a.", "a/",
    ],
)  # fmt: skip
def test_a_branch_name_that_means_something_else_is_refused(bench, changed, branch):
    before = git_state(bench.example.path)

    with pytest.raises(SourceError, match="no name of a branch"):
        bench.workspaces.export_branch(
            changed, str(bench.example.path), branch=branch, message="Fix"
        )

    assert git_state(bench.example.path) == before
