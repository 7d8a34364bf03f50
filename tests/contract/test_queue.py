"""What every run queue promises."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from runner.adapters.memory_queue import MemoryRunQueue
from runner.application.ports.queue import RunQueue
from runner.domain.ids import RunId


@pytest.fixture(params=["memory"])
def queue(request: pytest.FixtureRequest) -> RunQueue:
    return MemoryRunQueue()


def take_all(queue: RunQueue) -> list[RunId]:
    taken = []
    while (run_id := queue.take(timeout_seconds=0)) is not None:
        taken.append(run_id)
    return taken


def test_runs_come_in_the_order_they_were_published(queue):
    for name in ("r2", "r1", "r3"):
        queue.publish(RunId(name))

    assert take_all(queue) == ["r2", "r1", "r3"]


def test_a_run_that_is_queued_is_not_queued_twice(queue):
    for name in ("r1", "r2", "r1"):
        queue.publish(RunId(name))

    assert take_all(queue) == ["r1", "r2"]


def test_a_run_that_was_taken_can_be_published_again(queue):
    queue.publish(RunId("r1"))
    take_all(queue)

    queue.publish(RunId("r1"))

    assert take_all(queue) == ["r1"]


def test_nothing_comes_from_an_empty_queue(queue):
    assert queue.take(timeout_seconds=0.001) is None


def test_a_taker_that_waits_gets_what_is_published_meanwhile(queue):
    with ThreadPoolExecutor(1) as pool:
        taker = pool.submit(queue.take, timeout_seconds=30)
        queue.publish(RunId("r1"))

        assert taker.result() == "r1"


def test_each_run_goes_to_one_of_many_takers(queue):
    names = [RunId(f"r{number}") for number in range(200)]
    with ThreadPoolExecutor(8) as pool:
        takers = [pool.submit(queue.take, timeout_seconds=30) for _ in names]
        for name in names:
            queue.publish(name)

        assert sorted(one.result() for one in takers) == sorted(names)
