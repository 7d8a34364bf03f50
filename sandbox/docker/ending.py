"""Why a command ended, judged from facts that it cannot forge."""

from __future__ import annotations

import signal
from dataclasses import dataclass

from sandbox.command import Ending

_SIGNAL_BASE = 128  # exit status of a process ended by signal n is 128 + n, as a shell tells it
_FATAL = {
    signal.SIGHUP,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGILL,
    signal.SIGTRAP,
    signal.SIGABRT,
    signal.SIGBUS,
    signal.SIGFPE,
    signal.SIGKILL,
    signal.SIGSEGV,
    signal.SIGPIPE,
    signal.SIGALRM,
    signal.SIGTERM,
    signal.SIGXCPU,
    signal.SIGXFSZ,
    signal.SIGSYS,
}


_ROOM = {"disk_mib": "bytes", "inodes": "inodes"}


@dataclass(frozen=True, slots=True, kw_only=True)
class EndingFacts:
    """What is known once everything of a command is gone."""

    cause: Ending | None = None
    """TIMED_OUT or STOPPED when we ended it."""
    exit_code: int = 0
    oom_kills: int = 0
    """Growth of the kernel's counter during the command."""
    pids_refused: int = 0
    """Growth of the kernel's counter during the command."""
    disk_full: bool = False
    """The volume has no free bytes or inodes left: that is why a failing command failed."""
    used_up: str = ""
    """Name of the limit that nothing is left of."""
    disk_over: bool = False
    """A watched volume holds more than its limit: the command must not count as done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedEnding:
    """An ending with its exit code and the facts behind it."""

    ending: Ending
    exit_code: int | None
    limit: str
    """Name of the volume's limit that was used up, where that is the ending."""
    detail: str


def judge_ending(facts: EndingFacts) -> JudgedEnding:
    """Return how a command ended: our own doing first, then memory, processes, disk, signals."""
    fatal = _find_signal(facts.exit_code)
    ending = _name_ending(facts, fatal)
    by_itself = facts.cause is None and fatal is None
    return JudgedEnding(
        ending=ending,
        exit_code=facts.exit_code if by_itself else None,
        limit=facts.used_up if ending is Ending.DISK_FULL else "",
        detail="; ".join(_list_facts(facts, fatal)) if ending is not Ending.EXITED else "",
    )


def _name_ending(facts: EndingFacts, fatal: signal.Signals | None) -> Ending:
    if facts.cause is not None:
        return facts.cause
    failed = facts.exit_code != 0
    reasons = (
        # Memory also when it was a child's and the parent went on: the work is not whole.
        (facts.oom_kills > 0, Ending.OUT_OF_MEMORY),
        (facts.pids_refused > 0 and failed, Ending.RESOURCE_LIMIT),
        (facts.disk_over or (facts.disk_full and failed), Ending.DISK_FULL),
        (fatal is not None, Ending.KILLED),
    )
    return next((ending for holds, ending in reasons if holds), Ending.EXITED)


def _list_facts(facts: EndingFacts, fatal: signal.Signals | None) -> list[str]:
    told: list[str] = []
    if facts.oom_kills:
        told.append(f"processes killed by the kernel for memory: {facts.oom_kills}")
    if facts.pids_refused:
        told.append(f"forks refused by the limit on processes: {facts.pids_refused}")
    if facts.disk_full or facts.disk_over:
        told.append(f"the task's volume has no {_ROOM.get(facts.used_up, 'room')} left")
    if facts.cause is None and fatal is not None:
        told.append(f"exit status {facts.exit_code}: {fatal.name}")
    return told


def _find_signal(exit_code: int) -> signal.Signals | None:
    number = exit_code - _SIGNAL_BASE
    return signal.Signals(number) if number in _FATAL else None
