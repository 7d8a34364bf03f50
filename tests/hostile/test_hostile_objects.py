"""What of our git objects a container can reach: the closure of its base commit and no more."""

import pytest
from git_builders import ExampleRepository
from host_setting import make_docker_host
from sandbox_builders import make_spec, run_shell

from sandbox import History, Source, SourceKind

pytestmark = pytest.mark.engine

LIST = "git cat-file --batch-all-objects --batch-check='%(objectname) %(objecttype)'"


@pytest.fixture
def host(engine, tmp_path):
    return make_docker_host(engine, tmp_path / "home")


@pytest.fixture
def example(tmp_path):
    """Three commits, of which the first ones hold what the last one deletes."""
    example = ExampleRepository(tmp_path / "example")
    example.commit({"a": b"1", "gone": b"of the past\n"})
    (example.path / "gone").unlink()
    example.commit({"a": b"2"})
    example.git("branch", "other", "HEAD~1")
    example.commit({"b/c": b"3"})
    return example


def list_closure(example, commit, *options):
    listed = example.git("rev-list", "--objects", "--no-object-names", *options, commit)
    return set(listed.split())


def list_inside(sandbox, place=""):
    result = run_shell(sandbox, f"{place} {LIST}")
    assert result.exit_code == 0, result.stderr.head
    lines = [line.split(" ") for line in result.stdout.head.decode().splitlines()]
    return dict(lines)


def make_canaries(host, image, example, imported):
    """Return the ids of commits and blobs that came later: upstream, and in another task."""
    start = host.start_snapshot(imported, task_id="tcanary")
    with host.open_sandbox(make_spec(image, task_id="tcanary", start=start)) as other:
        script = "echo canary >canary; git add canary; git commit -qm canary; git rev-parse HEAD"
        inside = run_shell(other, script).stdout.head.decode().strip()
        taken = other.take_snapshot().snapshot
    later = example.commit({"later": b"canary upstream\n"})
    example.git("update-ref", "refs/heads/other", later)
    host.import_source(Source(kind=SourceKind.PATH, location=str(example.path)))
    upstream = example.git("rev-parse", f"{later}:later")
    return [inside, taken.commit, taken.source_tree, taken.full_tree, later, upstream]


@pytest.mark.parametrize("history", list(History))
def test_an_object_listing_inside_a_task_is_the_closure_of_its_base(host, image, example, history):
    base = example.git("rev-parse", "HEAD")
    source = Source(kind=SourceKind.PATH, location=str(example.path), history=history)
    imported = host.import_source(source)
    canaries = make_canaries(host, image, example, imported)

    start = host.start_snapshot(imported, task_id="tseen")
    with host.open_sandbox(make_spec(image, task_id="tseen", start=start)) as sandbox:
        through_alternates = list_inside(sandbox)
        in_the_mount = list_inside(sandbox, "GIT_DIR=/forkyard/base.git")
        reached = run_shell(
            sandbox,
            "for one in " + " ".join(canaries) + "; do git cat-file -e $one; echo $?; done",
        )
        stores = run_shell(
            sandbox,
            "find / /workspace /home /tmp /forkyard/base.git -xdev"
            " -name '*.pack' -o -name alternates -o -path '*/objects/??/*' 2>/dev/null;"
            " cat /workspace/.git/objects/info/alternates",
        )

    only = ["--max-count=1"] if history is History.SHALLOW else []
    expected = list_closure(example, base, *only)
    assert through_alternates.keys() == in_the_mount.keys() == expected
    assert list(through_alternates.values()).count("commit") == (3 if not only else 1)
    ends = reached.stdout.head.split()
    assert len(ends) == len(canaries)
    assert b"0" not in ends
    places = stores.stdout.head.decode().splitlines()
    assert [place for place in places if not place.startswith("/forkyard/base.git/objects/")] == [
        "/workspace/.git/objects/info/alternates",
        "/forkyard/base.git/objects",  # what that file names
    ]


def test_the_mounted_repository_cannot_be_changed(host, image, example):
    source = Source(kind=SourceKind.PATH, location=str(example.path))
    start = host.start_snapshot(host.import_source(source), task_id="tmount")
    with host.open_sandbox(make_spec(image, task_id="tmount", start=start)) as sandbox:
        for attempt in (
            "touch /forkyard/base.git/x",
            "GIT_DIR=/forkyard/base.git git config core.fsmonitor /tmp/x",
            "GIT_DIR=/forkyard/base.git git update-ref refs/heads/x HEAD",
            "GIT_DIR=/forkyard/base.git git gc --prune=now",
        ):
            assert run_shell(sandbox, attempt).exit_code != 0, attempt
        pruned = run_shell(sandbox, "git worktree prune; git gc -q --prune=now; git log --oneline")

    assert len(pruned.stdout.head.splitlines()) == 3


def test_included_work_is_the_only_commit_where_the_past_is_hidden(host, image, example):
    (example.path / "a").write_bytes(b"under way")
    source = Source(
        kind=SourceKind.PATH,
        location=str(example.path),
        history=History.SHALLOW,
        include=("uncommitted",),
    )
    imported = host.import_source(source)
    start = host.start_snapshot(imported, task_id="tonly")
    with host.open_sandbox(make_spec(image, task_id="tonly", start=start)) as sandbox:
        seen = list_inside(sandbox)

    commits = [oid for oid, kind in seen.items() if kind == "commit"]
    assert commits == [imported.commit]
    assert example.git("rev-parse", "HEAD:a") not in seen
