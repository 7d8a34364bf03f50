import os
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from git_builders import ExampleRepository, GitBench, run_git

from sandbox import History, Source, SourceError, SourceKind
from sandbox.git.environment import make_environment
from sandbox.git.fetching import SourceFetcher
from sandbox.git.repositories import GitRepositories


@pytest.fixture
def bench(tmp_path):
    return GitBench(tmp_path)


def objects_of(repository):
    listing = run_git(repository, "cat-file", "--batch-all-objects", "--batch-check")
    return {line.split()[0] for line in listing.splitlines()}


def tree_bytes(path):
    return {
        str(one.relative_to(path)): (one.read_bytes(), one.stat().st_mtime_ns)
        for one in sorted(path.rglob("*"))
        if one.is_file()
    }


def test_a_base_repository_holds_only_what_its_commit_reaches(bench):
    base = bench.example.commit({"a": b"1"})
    later = bench.example.commit({"a": b"2 later"})
    bench.example.git("tag", "--annotate", "--message=t", "v1", base)

    imported = bench.import_example(ref="v1")

    repository = bench.repositories.base_repository(
        imported.repository_id, imported.commit, imported.history
    )
    assert imported.commit == base
    assert len(objects_of(repository)) == 3
    assert later not in objects_of(repository)
    assert run_git(repository, "for-each-ref", "--format=%(refname)") == "refs/forkyard/base"


def test_a_shallow_base_holds_one_commit(bench):
    first = bench.example.commit({"a": b"1"})
    second = bench.example.commit({"b": b"2"})

    imported = bench.import_example(history=History.SHALLOW)

    repository = bench.repositories.base_repository(
        imported.repository_id, imported.commit, imported.history
    )
    assert repository.name == f"{second}.shallow.git"
    assert (repository / "shallow").read_text().strip() == second
    assert first not in objects_of(repository)


def test_importing_twice_changes_nothing(bench):
    bench.example.commit({"a": b"1"})
    first = bench.import_example()
    before = tree_bytes(bench.root / "home" / "repos" / first.repository_id)

    second = bench.import_example()

    assert second == first
    assert tree_bytes(bench.root / "home" / "repos" / first.repository_id) == before


def test_the_commit_is_the_one_that_the_ref_named(bench):
    detached = bench.example.commit({"a": b"1"})
    bench.example.commit({"a": b"2"})
    bench.example.git("checkout", "--quiet", "--detach", detached)
    ahead = bench.example.commit({"a": b"ahead of every branch"})

    assert bench.import_example().commit == ahead
    assert bench.import_example(ref=detached).commit == detached
    assert bench.import_example(ref="main").commit not in (ahead, detached)


def test_a_linked_worktree_is_a_source_of_the_same_repository(bench):
    bench.example.commit({"a": b"1"})
    linked = bench.root / "linked"
    bench.example.git("worktree", "add", "--quiet", "--detach", str(linked))
    (linked / "b").write_bytes(b"2")
    run_git(linked, "add", "b")
    run_git(linked, "commit", "--quiet", "--message=in the worktree")

    imported = bench.repositories.import_source(Source(kind=SourceKind.PATH, location=str(linked)))

    assert imported.commit == run_git(linked, "rev-parse", "HEAD")
    assert imported.repository_id == bench.import_example().repository_id


def test_a_shallow_clone_is_a_source(bench):
    bench.example.commit({"a": b"1"})
    bench.example.commit({"a": b"2"})
    clone = bench.root / "clone"
    run_git(bench.root, "clone", "--quiet", "--depth=1", f"file://{bench.example.path}", "clone")

    imported = bench.repositories.import_source(Source(kind=SourceKind.PATH, location=str(clone)))
    start = bench.workspaces.start_snapshot(imported, task_id="t1")

    with bench.workspaces.open_workspace(bench.volume(), task_id="t1", start=start) as workspace:
        log = bench.git_inside(workspace.paths.workspace, start, "log", "--oneline")
    assert len(log.splitlines()) == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="needs to give files away")
def test_a_repository_of_another_user_is_a_source(bench):
    bench.example.commit({"a": b"1"})
    for path in (bench.example.path, *bench.example.path.rglob("*")):
        os.chown(path, 4321, 4321)

    assert len(bench.import_example().commit) == 40


@pytest.mark.parametrize("history", list(History))
def test_a_url_is_a_source(bench, history):
    commit = bench.example.commit({"a": b"1"})
    bench.example.git("tag", "--annotate", "--message=t", "v1")
    url = f"file://{bench.example.path}"

    for ref in ("HEAD", "main", "v1", commit):
        source = Source(kind=SourceKind.URL, location=url, ref=ref, history=history)
        assert bench.repositories.import_source(source).commit == commit


def test_a_server_that_hands_out_refs_only_is_a_source(bench):
    """An annotated tag's commit is no tip, so an old server refuses it by its id."""
    commit = bench.example.commit({"a": b"1"})
    bench.example.git("tag", "--annotate", "--message=t", "v1")
    bench.example.commit({"a": b"2 later"})
    old = {k: "0" if v == "2" else v for k, v in make_environment().items()}
    fetcher = SourceFetcher(old)
    place = bench.root / "place"
    place.mkdir()
    fetcher.make_bare(place / "base.git")

    origin = fetcher.find_at_url(f"file://{bench.example.path}", "v1")
    fetcher.fetch(origin, into=place / "base.git", history=History.FULL)

    assert origin.commit == commit
    assert len(objects_of(place / "base.git")) == 3
    assert (place / "base.git.hop").exists()


def test_a_server_that_never_answers_is_given_up(bench):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        fetcher = SourceFetcher(make_environment(), limit_seconds=1)

        with pytest.raises(SourceError, match="1 s"):
            fetcher.find_at_url(f"git://127.0.0.1:{port}/x", "main")


def test_the_url_is_stored_nowhere(bench):
    bench.example.commit({"a": b"1"})
    source = Source(kind=SourceKind.URL, location=f"file://{bench.example.path}")

    bench.repositories.import_source(source)

    stored = tree_bytes(bench.root / "home").values()
    assert not any(b"example" in content for content, _ in stored)


@pytest.mark.parametrize(
    ("kind", "location", "ref", "words"),
    [
        (SourceKind.PATH, "nowhere", "HEAD", "no such directory"),
        (SourceKind.PATH, "plain", "HEAD", "git init"),
        (SourceKind.PATH, "example/below", "HEAD", "not a git repository"),
        (SourceKind.PATH, "unborn", "HEAD", "no commits yet"),
        (SourceKind.PATH, "example", "missing", "no branch, tag or commit"),
        (SourceKind.PATH, "example", "0" * 40, "no branch, tag or commit"),
        (SourceKind.PATH, "example", "--upload-pack=touch x", "no name of a branch"),
        (SourceKind.URL, "unborn", "HEAD", "no commits yet"),
        (SourceKind.URL, "nowhere", "HEAD", "cannot be read"),
        (SourceKind.URL, "example", "missing", "no branch or tag"),
        (SourceKind.URL, "example", "0" * 40, "cannot be fetched"),
    ],
)
def test_an_unusable_source_says_why_and_leaves_no_base(bench, kind, location, ref, words):
    bench.example.commit({"below/a": b"1"})
    (bench.root / "plain").mkdir()
    ExampleRepository(bench.root / "unborn")
    prefix = "file://" if kind is SourceKind.URL else ""

    with pytest.raises(SourceError, match=words):
        bench.repositories.import_source(
            Source(kind=kind, location=f"{prefix}{bench.root / location}", ref=ref)
        )

    assert list(bench.root.glob("home/repos/*/base/*")) == []


def test_a_base_that_git_would_not_check_out_is_refused(bench):
    blob = bench.example.commit({"a": b"1"}) and bench.example.git("rev-parse", "HEAD:a")
    line = f"100644 blob {blob}\t.GIT\n".encode()
    made = subprocess.run(
        ["git", "mktree"], cwd=bench.example.path, input=line, capture_output=True, check=True
    )
    tree = made.stdout.decode().strip()
    commit = bench.example.git("commit-tree", "-m", "evil", tree)
    bench.example.git("update-ref", "refs/heads/evil", commit)

    with pytest.raises(SourceError, match="no git checks out"):
        bench.import_example(ref="evil")

    assert list(bench.root.glob("home/repos/*/base/*")) == []


def test_a_half_made_base_is_built_anew(bench):
    bench.example.commit({"a": b"1"})
    imported = bench.import_example()
    base = bench.repositories.base_repository(
        imported.repository_id, imported.commit, imported.history
    )
    base.rename(base.parent / ".building-dead")

    again = bench.import_example()

    assert again == imported
    assert [path.name for path in base.parent.iterdir()] == [base.name]


def test_parallel_imports_in_threads_and_processes_make_one_base(bench):
    bench.example.commit({"a": b"1"})
    program = (
        "import sys; from pathlib import Path; from sandbox import Source, SourceKind;"
        "from sandbox.git import GitRepositories;"
        "source = Source(kind=SourceKind.PATH, location=sys.argv[2]);"
        "print(GitRepositories(Path(sys.argv[1])).import_source(source).commit)"
    )
    command = [sys.executable, "-c", program, str(bench.root / "home"), str(bench.example.path)]
    others = [
        subprocess.Popen(command, stdout=subprocess.PIPE, cwd=Path(__file__).parents[2])
        for _ in range(2)
    ]

    with ThreadPoolExecutor(6) as pool:
        commits = set(pool.map(lambda _: bench.import_example().commit, range(12)))

    outputs = {process.communicate()[0].decode().strip() for process in others}
    assert commits == outputs == {bench.example.git("rev-parse", "HEAD")}
    assert len(list(bench.root.glob("home/repos/*/base/*"))) == 1


def test_inherited_git_variables_reach_no_git_process(bench):
    bench.example.commit({"a": b"1"})
    other = ExampleRepository(bench.root / "other")
    other.commit({"x": b"1"})
    (other.path / "x").write_bytes(b"dirty")
    before = tree_bytes(other.path)
    program = (
        "import sys; from pathlib import Path;"
        "from sandbox import Source, SourceKind; from sandbox.git import *;"
        "repositories = GitRepositories(Path(sys.argv[1]));"
        "workspaces = GitWorkspaces(repositories, owner=(1000, 1000));"
        "source = Source(kind=SourceKind.PATH, location=sys.argv[2]);"
        "start = workspaces.start_snapshot(repositories.import_source(source), task_id='t1');"
        "volume = Path(sys.argv[3]); volume.mkdir();\n"
        "with workspaces.open_workspace(volume, task_id='t1', start=start) as workspace:\n"
        "    (workspace.paths.workspace / 'new').write_bytes(b'2')\n"
        "    taken = workspace.take_snapshot()\n"
        "    workspace.restore(start)\n"
        "sys.stdout.buffer.write(workspaces.make_patch(taken.snapshot))\n"
    )
    home, volume = bench.root / "home", bench.root / "volume"
    arguments = [str(home), str(bench.example.path), str(volume)]
    hostile = {
        "GIT_DIR": str(other.path / ".git"),
        "GIT_INDEX_FILE": str(other.path / ".git" / "index"),
        "GIT_WORK_TREE": str(other.path),
        "GIT_COMMON_DIR": str(other.path / ".git"),
        "GIT_OBJECT_DIRECTORY": str(other.path / ".git" / "objects"),
        "GIT_NAMESPACE": "stolen",
        "LANG": "de_DE.UTF-8",
    }

    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env={"PATH": os.environ["PATH"], **hostile},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        check=False,
    )

    assert done.stderr == b""
    assert b"+++ b/new" in done.stdout
    assert tree_bytes(other.path) == before


def test_no_process_and_no_descriptor_is_left_behind(bench):
    bench.example.commit({"a": b"1"})
    bench.import_example()
    before = len(list(Path("/proc/self/fd").iterdir()))

    for _ in range(3):
        start = bench.workspaces.start_snapshot(bench.import_example(), task_id="t1")
        volume = bench.root / "volume"
        volume.mkdir()
        with bench.workspaces.open_workspace(volume, task_id="t1", start=start) as workspace:
            workspace.take_snapshot()

    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text()
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    assert children == ""


def test_a_home_that_moves_keeps_working(bench):
    start = bench.start({"a": b"1"})
    moved = bench.root / "moved"
    (bench.root / "home").rename(moved)

    paths = GitRepositories(moved)

    with paths.open_reader(start.repository_id) as reader:
        assert reader.get(f"{start.source_tree}").kind == "tree"
        assert reader.get(start.base_commit).kind == "commit"
