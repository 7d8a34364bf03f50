"""Several processes on one SQLite store, killed writers, and a full disk."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import store_writer
from store_builders import NOON, SESSION, add_task_with_run, said

from runner.adapters.sql import open_sql_store
from runner.domain.rollout import export_lines, read_lines
from runner.errors import StoreFullError

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


def start_writer(url: str, *, session: str = SESSION, count: int, word: str, size: int = 20):
    search = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
    return subprocess.Popen(
        [sys.executable, store_writer.__file__, url, session, str(count), word, str(size)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": search},
    )


def finish(writer: subprocess.Popen[str]) -> list[int]:
    """Wait for a writer and return what it acknowledged."""
    out, error = writer.communicate(timeout=120)
    assert (writer.returncode, error) == (0, "")
    return [int(line) for line in out.splitlines()]


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/store.db"


def test_s01_s09_eight_processes_and_a_reader_meet_no_lock_and_leave_no_gap(url):
    with open_sql_store(url) as store:
        add_task_with_run(store)
        writers = [start_writer(url, count=60, word=f"{name} ", size=65536) for name in "abcdefgh"]
        while any(writer.poll() is None for writer in writers):
            with store.read() as reader:
                count, head = reader.count_items(SESSION)
                last = reader.list_items(SESSION, after=max(count - 3, 0))
            assert [item.hash for item in last][-1:] == [head][:count]
        acknowledged = [seq for writer in writers for seq in finish(writer)]

        with store.read() as reader:
            items = reader.list_items(SESSION)

    assert sorted(acknowledged) == list(range(1, 8 * 60 + 1))
    assert len(items) == 8 * 60
    for name in "abcdefgh":
        numbers = [one.payload.text.split()[1] for one in items if one.payload.text[0] == name]
        assert numbers == [str(number) for number in range(60)]


def test_eight_processes_may_open_a_store_that_is_not_made_yet(url):
    writers = [start_writer(url, count=0, word="a") for _ in range(8)]

    assert [finish(writer) for writer in writers] == [[]] * 8


def test_a_killed_writer_loses_nothing_that_it_acknowledged(url):
    acknowledged = 0
    with open_sql_store(url) as store:
        add_task_with_run(store)

    for round_number in range(5):
        writer = start_writer(url, count=100_000, word=f"{round_number} ")
        for _ in range(20 + 7 * round_number):
            acknowledged = int(writer.stdout.readline())
        writer.kill()
        # what it had said before it died counts too
        rest = writer.communicate()[0].split("\n")[:-1]
        acknowledged = int(rest[-1]) if rest else acknowledged

        with open_sql_store(url) as store, store.read() as reader:
            items = reader.list_items(SESSION)
        assert len(items) >= acknowledged
        assert read_lines(export_lines(items), SESSION).items == tuple(items)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a file system of 1 MiB."""
    if os.geteuid() != 0:
        pytest.skip("mounting needs root")
    point = tmp_path / "disk"
    point.mkdir()
    options = "size=1m,mode=0700"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "forkyard-test", point], check=True)
    yield point
    subprocess.run(["umount", point], check=True)


def fill(store, *, size: int = 8000) -> int:
    """Append until the disk is full; return how many appends were acknowledged."""
    for count in range(10_000):
        try:
            with store.write() as writer:
                writer.append_items(SESSION, [said("x" * size)], at=NOON)
        except StoreFullError:
            return count
    raise AssertionError("the disk never filled up")


def test_s10_on_a_full_disk_nothing_is_acknowledged_that_is_not_kept(small_disk):
    ballast = small_disk / "ballast"
    ballast.write_bytes(b"\0" * 300_000)
    with open_sql_store(f"sqlite:///{small_disk}/store.db") as store:
        add_task_with_run(store)

        acknowledged = fill(store)

        with store.read() as reader:
            assert reader.count_items(SESSION)[0] == acknowledged > 0
        ballast.unlink()
        with store.write() as writer:
            placed = writer.append_items(SESSION, [said("room again")], at=NOON)
        assert placed[0].seq == acknowledged + 1
        with store.read() as reader:
            assert len(reader.list_items(SESSION)) == acknowledged + 1
