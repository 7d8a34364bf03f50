"""What every clock and every source of chance promise."""

from __future__ import annotations

from datetime import UTC, timedelta

import pytest

from runner.adapters.fixed_clock import START, FixedClock, FixedEntropy
from runner.adapters.system_clock import SystemClock, SystemEntropy
from runner.application.ports.clock import Clock, Entropy


@pytest.fixture(params=[FixedClock, SystemClock])
def clock(request: pytest.FixtureRequest) -> Clock:
    return request.param()


@pytest.fixture(params=[FixedEntropy, SystemEntropy])
def entropy(request: pytest.FixtureRequest) -> Entropy:
    return request.param()


def test_an_instant_is_aware_and_utc(clock):
    assert clock.now().tzinfo is UTC


def test_the_monotonic_clock_does_not_go_back(clock):
    first = clock.monotonic()

    assert clock.monotonic() >= first


@pytest.mark.parametrize("count", [0, 1, 13, 1000])
def test_as_many_bytes_come_as_were_asked_for(entropy, count):
    assert len(entropy.random_bytes(count)) == count


def test_bytes_do_not_repeat(entropy):
    assert len({entropy.random_bytes(13) for _ in range(1000)}) == 1000


def test_a_fixed_clock_moves_only_when_it_is_advanced():
    clock = FixedClock()

    clock.advance(1.5)

    assert clock.now() == clock.now() == START + timedelta(seconds=1.5)
    assert clock.monotonic() == 1.5


def test_a_fixed_clock_does_not_go_back():
    with pytest.raises(ValueError, match="back"):
        FixedClock().advance(-1)


def test_fixed_chance_is_the_same_for_the_same_seed():
    assert FixedEntropy("a").random_bytes(13) == FixedEntropy("a").random_bytes(13)
    assert FixedEntropy("a").random_bytes(13) != FixedEntropy("b").random_bytes(13)
