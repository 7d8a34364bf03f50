"""Streams into a repository that do not come to their end."""

import random
from itertools import repeat

import pytest
from git_builders import GitBench

from sandbox import DiskFullError
from sandbox.git.stream import FastImport


@pytest.fixture
def repository(tmp_path):
    bench = GitBench(tmp_path)
    return bench.repositories.git, bench.snapshots(bench.start({"a": b"1"}))


def packs(place):
    return sorted(path.name for path in (place / "objects" / "pack").iterdir())


def test_a_stream_that_is_given_up_leaves_no_half_pack(repository):
    git, place = repository
    before = packs(place)

    with FastImport(git, place) as stream:
        stream.put_bytes(random.Random(1).randbytes(3_000_000))
        stream.ask(b"ls 4b825dc642cb6eb9a060e54bf8d69288fbee4904 x\n")
        assert len(packs(place)) > len(before)

    assert packs(place) == before


def test_the_last_room_on_the_host_is_left_to_others(repository):
    git, place = repository
    before = packs(place)

    with (
        pytest.raises(DiskFullError, match="kept free"),
        FastImport(git, place, kept_free_bytes=2**62) as stream,
    ):
        stream.put_bytes(b"1")

    assert packs(place) == before


def test_room_is_looked_at_while_a_stream_goes_on(repository):
    git, place = repository
    with FastImport(git, place) as stream:
        stream.put_bytes(b"1")
        stream.kept_free_bytes = 2**62

        with pytest.raises(DiskFullError):
            stream.put_chunks(2**30, repeat(bytes(2**20)))
