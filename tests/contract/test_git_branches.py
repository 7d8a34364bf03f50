"""Branches that are made in a user's repository from a snapshot."""

import pytest
from git_builders import GitBench, run_git

from sandbox import BranchExistsError, SourceError


@pytest.fixture
def bench(tmp_path):
    return GitBench(tmp_path)


@pytest.fixture
def taken(bench):
    start = bench.start({"a": b"1\n"})
    with bench.workspaces.open_workspace(bench.volume(), task_id="t1", start=start) as workspace:
        (workspace.paths.workspace / "a").write_bytes(b"2\n")
        return workspace.take_snapshot().snapshot


def export(bench, taken, repository):
    return bench.workspaces.export_branch(taken, str(repository), branch="fix/a", message="Fix a")


def test_a_branch_holds_the_source_tree_on_its_base_and_nothing_else_moves(bench, taken):
    before = bench.example.git("for-each-ref"), bench.example.git("status", "--porcelain=v2")

    commit = export(bench, taken, bench.example.path)

    assert bench.example.git("rev-parse", "fix/a", "fix/a~", "fix/a^{tree}").split() == [
        commit,
        taken.base_commit,
        taken.source_tree,
    ]
    bench.example.git("update-ref", "-d", "refs/heads/fix/a")
    after = bench.example.git("for-each-ref"), bench.example.git("status", "--porcelain=v2")
    assert after == before


@pytest.mark.parametrize("options", [["clone", "--bare"], ["clone", "--no-checkout"]])
def test_every_repository_that_is_a_source_takes_a_branch(bench, taken, options):
    other = bench.root / "other"
    run_git(bench.root, *options, "--quiet", str(bench.example.path), "other")

    commit = export(bench, taken, other)

    assert run_git(other, "rev-parse", "refs/heads/fix/a") == commit


def test_a_linked_worktree_takes_a_branch_into_its_repository(bench, taken):
    linked = bench.root / "linked"
    bench.example.git("worktree", "add", "--quiet", "--detach", str(linked))

    assert bench.example.git("rev-parse", "HEAD") == taken.base_commit
    assert export(bench, taken, linked) == bench.example.git("rev-parse", "fix/a")


def test_no_hook_of_the_repository_runs(bench, taken):
    hook = bench.example.path / ".git" / "hooks" / "reference-transaction"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {bench.root}/canary\n")
    hook.chmod(0o755)

    export(bench, taken, bench.example.path)

    assert not (bench.root / "canary").exists()


def test_a_taken_name_and_a_place_without_a_repository_are_told_apart(bench, taken):
    export(bench, taken, bench.example.path)

    with pytest.raises(BranchExistsError):
        export(bench, taken, bench.example.path)
    with pytest.raises(SourceError, match="not a git repository"):
        export(bench, taken, bench.root)
