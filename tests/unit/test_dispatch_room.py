"""Runs wait while a disk is nearly full, and say why; nothing that has started is held up."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest
from run_builders import FINISH, FIX, Yard, make_spec, shell

from runner.application.capacity import LeastRoom
from runner.application.room import find_shortage
from runner.domain.outcome import Outcome
from runner.domain.task import BatchBudget
from sandbox import DiskFullError, EngineUnavailableError, Room
from sandbox.testing import Fault, FaultPoint, MemorySandboxHost
from sandbox.testing_programs import FakeProgram, ProgramCall, ProgramOutcome

MIB = 1024 * 1024
GOOD = ([shell(FIX)], [FINISH])
PLENTY = Room(used_for="home", path="/home", free_bytes=9999 * MIB, free_inodes=99_999)
LOW = Room(used_for="engine", path="/engine", free_bytes=100 * MIB, free_inodes=99_999)
NO_INODES = Room(used_for="home", path="/home", free_bytes=9999 * MIB, free_inodes=3)


@pytest.mark.parametrize(
    ("rooms", "told"),
    [
        ([PLENTY], ""),
        ([PLENTY, LOW], "engine (/engine): 100 MiB free, 2048 are needed to start"),
        ([NO_INODES], "home (/home): 3 inodes free, 20000 are needed to start"),
        (
            [NO_INODES, LOW],
            (
                "home (/home): 3 inodes free, 20000 are needed to start; "
                "engine (/engine): 100 MiB free, 2048 are needed to start"
            ),
        ),
    ],
)
def test_a_shortage_names_the_file_system_what_is_free_and_what_is_needed(rooms, told) -> None:
    yard = Yard(*GOOD)
    yard.host.rooms = rooms

    assert find_shortage(yard.services) == told


def test_a_file_system_that_counts_no_inodes_is_never_short_of_them() -> None:
    yard = Yard(*GOOD)
    assert yard.host.rooms[0].free_inodes is None

    assert find_shortage(yard.services) == ""


class BlindHost(MemorySandboxHost):
    """Its engine does not answer."""

    def list_rooms(self) -> list[Room]:
        raise EngineUnavailableError("no answer")


def test_where_nobody_can_look_runs_are_not_held_up() -> None:
    yard = Yard(*GOOD, make_host=BlindHost)

    yard.dispatcher().run(threading.Event())

    assert yard.run.outcome is Outcome.VERIFIED


@pytest.mark.parametrize("short", [LOW, NO_INODES], ids=["bytes", "inodes"])
def test_runs_wait_for_room_say_so_once_and_start_when_there_is_some(short) -> None:
    yard = Yard(*GOOD)
    yard.host.rooms = [short]

    class Clock(type(yard.clock)):  # type: ignore[misc]
        looks = 0

        def monotonic(self) -> float:
            self.looks += 1
            if self.looks == 14:
                assert yard.host.opened == 0
                assert yard.run.started_at is None
                yard.host.rooms = [PLENTY]
            self.advance(0.5)
            return super().monotonic()

    yard.services = replace(yard.services, clock=Clock())

    yard.dispatcher().run(threading.Event())

    assert yard.run.outcome is Outcome.VERIFIED
    told = [one for one in yard.activities if one.startswith("waiting for room: ")]
    assert len(told) == 1
    assert "are needed to start" in told[0]


def test_a_run_that_waits_for_room_still_expires() -> None:
    yard = Yard(*GOOD)
    late = yard.submit(make_spec(*GOOD, name="late"), budget=BatchBudget(deadline_minutes=1))
    yard.host.rooms = [LOW]
    yard.clock.advance(61)
    yard.batch = late

    yard.dispatcher(batch_id=late.batch_id).run(threading.Event())

    assert yard.run.outcome is Outcome.EXPIRED


def test_a_run_that_has_started_is_not_held_up_by_the_gate() -> None:
    yard = Yard([shell(f"fill; {FIX}")], [FINISH])

    def fill(_program: ProgramCall) -> ProgramOutcome:
        yard.host.rooms = [LOW]
        return ProgramOutcome()

    yard.host.programs.append(FakeProgram(name="fill", run=fill))

    yard.dispatcher().run(threading.Event())

    assert yard.run.outcome is Outcome.VERIFIED


def test_a_run_whose_host_fills_up_ends_as_disk_full_with_its_call_answered() -> None:
    yard = Yard(*GOOD)
    full = DiskFullError("the host has no room left (/home): 3 MiB free, 512 are kept")
    yard.host.plan(Fault(FaultPoint.AFTER_RUN, full, skip=1))

    run = yard.work()

    assert run.outcome is Outcome.DISK_FULL
    assert run.reason == str(full)
    assert [one.call_id for one in yard.results] == yard.calls


def test_how_much_has_to_be_free_is_a_setting() -> None:
    yard = Yard(*GOOD)
    yard.host.rooms = [LOW]

    yard.services = replace(yard.services, least_room=LeastRoom(free_mib=50))

    assert find_shortage(yard.services) == ""
