"""Traps for who reads a task's files on the host (CASES.md: 22, 24-26, 28, 29, 32, 34, 36, 37).

`ended` has checked the host, the sibling and the stored outcome before each test looks at a call;
a command of the task's that ran on the host would have made a marker that this check finds.
"""

from __future__ import annotations

import re

import pytest
from git_builders import run_git
from hostile_builders import HOST_SECRET, assert_others_are_whole, read_all_objects

from runner.application.apply_task import apply_to_branch, apply_to_checkout
from runner.domain.outcome import Outcome
from runner.errors import FlaggedPathsError
from sandbox import SourceError

pytestmark = [pytest.mark.engine, pytest.mark.slow]

TASK = "files"
NEVER_ASKED = {"archive", "attach", "build", "commit", "copy", "export", "get", "load"}
"""Parts of the engine's paths that carry files in or out, unpack them, or run what is inside."""


@pytest.fixture
def last(ended, yard):
    return yard.last_snapshot(TASK)


def list_tree(yard, tree):
    """Return mode and path of everything in a tree."""
    listed = run_git(yard.snapshots(TASK), "ls-tree", "-r", "-t", "-z", tree)
    rows = [one.split("\t") for one in listed.split("\0") if one]
    return {path: row.split()[0] for row, path in rows}


@pytest.mark.parametrize("label", ["22 read d/etc/shadow", "22 read host", "24 read"])
def test_cases_22_and_24_a_link_leads_to_nothing_of_the_host(ended, label):
    called = ended.calls[label]

    assert called.result.status.value == "failed"
    assert "root:" not in called.text


def test_cases_22_and_24_links_are_kept_as_links_and_their_targets_never_read(last, yard):
    names = ("out.txt", "d", "host", "s", "magic", "fd", "root", "cwd")
    tree = list_tree(yard, last.source_tree)

    assert {tree[name] for name in names} == {"120000"}
    assert HOST_SECRET.encode() not in read_all_objects(yard.snapshots(TASK))
    assert HOST_SECRET.encode() not in yard.engine.seen
    assert yard.ended[TASK].calls["22 read outside"].text.startswith("/etc/passwd:\nroot:x:0:0")


def test_case_25_what_is_no_file_is_listed_with_its_kind_and_not_opened(ended, last):
    left_out = {one.path: one.reason for one in last.coverage.left_out}

    pipes = {f"workspace/pipes/{name}" for name in (".gitignore", ".gitattributes", ".gitmodules")}
    assert {left_out[one] for one in pipes} == {"a named pipe"}
    assert left_out["workspace/pipes/socket"] == "a socket"
    assert "mknod: device: Operation not permitted" in ended.calls["25 no files"].text
    assert "it is not a regular file" in ended.calls["25 read a pipe"].text
    assert seconds_of(ended, "25 no files") < 10


def seconds_of(ended, label):
    """Return the time from a call's start to its stored result, the snapshot included."""
    call_id = ended.calls[label].result.call_id
    own = [one for one in ended.items if getattr(one.payload, "call_id", "") == call_id]
    return (own[-1].at - own[0].at).total_seconds()


def test_case_26_a_file_of_many_gigabytes_is_left_out_and_a_growing_one_stands_still(ended, yard):
    taken = yard.snapshot_after(TASK, "26 sparse")

    reasons = {one.path: one.reason for one in taken.coverage.left_out}
    assert reasons["workspace/sparse"].startswith("larger than 268435456 bytes")
    assert seconds_of(ended, "26 sparse") < 10
    assert "1 processes still running then were killed" in ended.calls["26 growing"].text


def test_case_28_archives_of_a_task_are_bytes_and_never_unpacked(last, yard):
    tree = list_tree(yard, last.source_tree)

    assert tree["archives/evil.tar"] == tree["archives/evil.zip"] == "100644"
    assert [one for one in tree if one.endswith(("bomb", "dev"))] == []


def test_case_28_a_hostile_archive_as_a_source_is_refused_by_name(yard):
    assert_others_are_whole(yard)
    run = yard.ended["archive"].run

    assert run.outcome is Outcome.INFRASTRUCTURE_ERROR
    assert "must not be imported" in run.reason


def test_case_29_the_engines_archive_interface_is_never_called(ended, yard):
    parts = {part for one in yard.engine.requests for part in re.split(r"[/ ?]", one)}

    assert {"containers", "create", "exec", "start", "json"} <= parts
    assert parts & NEVER_ASKED == set()
    assert ended.calls["29 own tools"].text == "exit code 0"
    assert sum(one.startswith("POST") for one in yard.engine.requests) > 100


def test_case_32_nothing_that_a_nested_repository_configures_runs_on_the_host(ended, yard):
    # snapshots, differences and results were made of it, and the volume was removed
    assert ended.calls["32 nested"].text == "exit code 0"
    patches = list((yard.app.settings.home / "results").rglob("files/changes.patch"))
    assert patches
    assert not yard.marker.exists()


def test_case_34_no_git_folder_and_no_gitlink_is_in_a_tree_or_a_patch(ended, last, yard):
    patch = yard.app.services.host.make_patch(last)
    trees = {**list_tree(yard, last.source_tree), **list_tree(yard, last.full_tree)}

    assert ended.calls["34 gitlinks"].text.endswith("planted\n")
    assert "160000" not in trees.values()
    parts = {part.lower().rstrip() for path in trees for part in path.split("/")}
    assert parts & {".git", "git~1"} == set()
    assert b"160000" not in patch
    headings = re.findall(rb"^(?:diff|---|\+\+\+) .*$", patch, re.MULTILINE)
    assert [one for one in headings if re.search(rb"(\.git|git~1)/", one, re.IGNORECASE)] == []
    # the bytes are not lost: they are kept beside the trees
    assert b"attributesFile = /workspace" in read_all_objects(yard.snapshots(TASK))
    commit = run_git(yard.snapshots(TASK), "ls-tree", "--name-only", last.commit).split()
    assert {"extra", "manifest"} <= set(commit)


@pytest.mark.parametrize(
    "branch", ["-x", "--output=/tmp/x", "refs/heads/a..b", "HEAD", "a b", "x.lock", "@{-1}", ""]
)
def test_case_36_a_branch_name_that_means_something_else_is_refused(ended, yard, branch):
    before = run_git(yard.repository, "for-each-ref")

    with pytest.raises(SourceError):
        apply_to_branch(ended.task.task_id, yard.app.services, branch=branch)

    assert run_git(yard.repository, "for-each-ref") == before


def test_case_36_a_ref_that_is_an_option_is_refused_and_not_run(yard):
    assert_others_are_whole(yard)
    run = yard.ended["ref"].run

    assert run.outcome is Outcome.INFRASTRUCTURE_ERROR
    assert "is no name of a branch, tag or commit" in run.reason


def test_case_37_hooks_are_never_exported_and_what_tools_execute_needs_a_look(ended, yard):
    services = yard.app.services

    with pytest.raises(FlaggedPathsError) as refused:
        apply_to_checkout(ended.task.task_id, services, accept_flagged=False)

    flagged = {one.path for one in refused.value.flagged}
    wanted = {
        *(b".vscode/tasks.json", b".envrc", b".husky/post-checkout", b"conftest.py"),
        *(b".github/workflows/ci.yml", b".gitattributes", b".gitmodules", b"out.txt", b"host"),
    }
    assert wanted - flagged == set()
    assert run_git(yard.repository, "status", "--porcelain") == ""
    apply_to_branch(ended.task.task_id, services, branch="looked-at")
    names = run_git(yard.repository, "ls-tree", "-r", "--name-only", "looked-at").splitlines()
    assert [one for one in names if "hooks" in one] == []
    hooks = yard.repository / ".git/hooks"
    assert [one.name for one in hooks.glob("*") if not one.name.endswith(".sample")] == []
    assert not yard.marker.exists()
