"""Writing into a checkout that changes while it is written to."""

import errno
import os

import pytest
from git_builders import GitBench

from sandbox import CheckoutConflictError
from sandbox.git.checkout_check import READ_DIRECTORY
from sandbox.git.placing import Placement
from sandbox.git.touched import list_touched


class Meddler:
    """Reads objects, but lets the user do something first: after the check, before the write."""

    def __init__(self, reader, meddle):
        self._reader = reader
        self._meddle = meddle

    def each(self, oids):
        self._meddle()
        return self._reader.each(oids)


@pytest.fixture
def bench(tmp_path):
    return GitBench(tmp_path)


@pytest.fixture
def root(bench):
    return bench.example.path


@pytest.fixture
def changed(bench):
    start = bench.start({"a": b"1\n", "deep/down/b": b"1\n", "z": b"1\n"})
    with bench.workspaces.open_workspace(bench.volume(), task_id="t1", start=start) as workspace:
        work = workspace.paths.workspace
        (work / "a").write_bytes(b"2\n")
        (work / "deep/down/b").unlink()
        (work / "deep/down/c").write_bytes(b"2\n")
        (work / "z").write_bytes(b"2\n")
        return workspace.take_snapshot().snapshot


def place(bench, changed, meddle, afterwards=lambda _: None):
    ours = bench.snapshots(changed)
    touched = list_touched(bench.repositories.git, ours, changed)
    root = os.open(bench.example.path, READ_DIRECTORY)
    try:
        with bench.repositories.open_reader(changed.repository_id) as reader:
            placement = Placement(root, "here")
            with placement:
                try:
                    placement.write(touched, Meddler(reader, meddle))
                finally:
                    afterwards(placement)
    finally:
        os.close(root)
        bench.kept = placement.kept


def read(root):
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and ".git" not in path.parts
    }


BEFORE = {"a": b"1\n", "deep/down/b": b"1\n", "z": b"1\n"}


def test_without_meddling_all_is_written(bench, root, changed):
    place(bench, changed, lambda: None)

    assert read(root) == {"a": b"2\n", "deep/down/c": b"2\n", "z": b"2\n"}


def test_a_file_that_is_edited_meanwhile_is_kept_and_all_is_undone(bench, root, changed):
    with pytest.raises(CheckoutConflictError, match="'z': it was changed meanwhile"):
        place(bench, changed, lambda: (root / "z").write_bytes(b"mine\n"))

    assert read(root) == {**BEFORE, "z": b"mine\n"}


def test_a_file_that_goes_away_meanwhile_undoes_all(bench, root, changed):
    with pytest.raises(CheckoutConflictError, match="'z': it went away meanwhile"):
        place(bench, changed, (root / "z").unlink)

    assert read(root) == {"a": b"1\n", "deep/down/b": b"1\n"}


def test_a_file_that_appears_meanwhile_is_kept_and_all_is_undone(bench, root, changed):
    with pytest.raises(CheckoutConflictError, match="something is in the way"):
        place(bench, changed, lambda: (root / "deep/down/c").write_bytes(b"mine\n"))

    assert read(root) == {**BEFORE, "deep/down/c": b"mine\n"}


def test_a_disk_that_is_full_leaves_all_as_it_was(bench, root, changed):
    def fail():
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        place(bench, changed, fail)

    assert read(root) == BEFORE


def test_a_directory_that_becomes_a_link_meanwhile_is_not_followed(bench, root, changed):
    outside = bench.root / "outside"

    def swap():
        (root / "deep").rename(outside)
        (root / "deep").symlink_to(outside)

    with pytest.raises(CheckoutConflictError):
        place(bench, changed, swap)

    assert read(outside) == {"down/b": b"1\n"}
    assert read(root) == {"a": b"1\n", "z": b"1\n"}


def test_a_file_whose_place_is_taken_while_undoing_stays_in_the_staging_directory(
    bench, root, changed
):
    with pytest.raises(CheckoutConflictError):
        place(
            bench,
            changed,
            lambda: (root / "z").write_bytes(b"mine\n"),
            lambda _: (root / "a").write_bytes(b"newer\n"),
        )

    assert bench.kept == 1
    left = read(root)
    staged = [name for name in left if name.startswith(".forkyard-apply-")]
    assert [left.pop(name) for name in staged] == [b"1\n"]
    assert left == {**BEFORE, "a": b"newer\n", "z": b"mine\n"}


def test_undoing_that_fails_deletes_nothing_that_was_set_aside(bench, root, changed):
    def break_undoing(placement):
        placement._undo.callback(fail)

    def fail():
        for step in (root / "a", root / "deep/down/b"):
            step.parent.mkdir(parents=True, exist_ok=True)
            step.write_bytes(b"newer\n")
        raise OSError(errno.EIO, "Input/output error")

    with pytest.raises(OSError, match="Input/output error"):
        place(bench, changed, lambda: (root / "z").write_bytes(b"mine\n"), break_undoing)

    staged = [one for one in read(root) if one.startswith(".forkyard-apply-")]
    assert len(staged) == bench.kept == 2
