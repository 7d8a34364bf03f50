"""The processes of one container: who belongs there, who is left over, and how those are ended.

Two residents stay for the container's life: the engine's init (PID 1 inside) and the keeper that
it started. Everybody else belongs to the command under way and must be gone when it ends. The
proof is the kernel's own count of threads: it is charged before a parent can exit, so no chain of
forks slips through, whatever it does to its session, group, parent or signals. The residents have
a uid of their own, so that no command kills them or writes itself into their memory.
"""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from sandbox.docker.control_group import ControlGroup
from sandbox.errors import SandboxLostError

_RESIDENTS = 2  # init and keeper, one thread each
_PF_EXITING = 0x4  # linux/sched.h
_START_SECONDS = 20.0
_KILL_SECONDS = 15.0  # a process in an uninterruptible wait outlives this: then it is lost
_FIRST_PAUSE_SECONDS = 0.0002
_LONGEST_PAUSE_SECONDS = 0.02


class Freezer(Protocol):
    """Stops all processes of a container at once, so that none can fork away from the kill."""

    def freeze(self) -> None:
        """Stop them."""
        ...

    def thaw(self) -> None:
        """Let them go on."""
        ...


@dataclass(frozen=True, slots=True)
class MainProcess:
    """What is known of the process that the engine started for a command."""

    pid: int
    """Host's id; 0 when it is not (or no more) there."""
    gone: bool
    """It was there: others live on that it must have started."""


class Processes:
    """The processes of one running container."""

    def __init__(
        self, group: ControlGroup, freezer: Freezer, *, residents: dict[int, int], shim: int
    ) -> None:
        self._group = group
        self._freezer = freezer
        self._residents = residents
        self._shim = shim

    def are_clean(self) -> bool:
        """Tell whether nobody but the residents lives.

        Raises:
            SandboxLostError: the container died.
        """
        clean = self._group.count_tasks() == _RESIDENTS
        # Init takes the command with it: the command is gone first, but init is flagged before.
        dying = any(_is_exiting(pid) for pid in self._residents)
        if dying or any(_has_exited(pidfd) for pidfd in self._residents.values()):
            raise SandboxLostError("the container's first processes died")
        return clean

    def have_settled(self) -> bool:
        """Tell whether only the residents live, giving the dead a moment to be reaped.

        Raises:
            SandboxLostError: the container died.
        """
        pause = _FIRST_PAUSE_SECONDS
        while not self.are_clean():
            if len(self._group.list_pids()) > _RESIDENTS or pause > _LONGEST_PAUSE_SECONDS:
                return False
            time.sleep(pause)
            pause *= 2
        return True

    def find_main(self) -> MainProcess:
        """Look for the process whose parent is the engine's, not one of the container's.

        Raises:
            SandboxLostError: the container died.
        """
        pids = self._group.list_pids()
        others = [pid for pid in pids if pid not in self._residents]
        parents = {pid: _parent_of(pid) for pid in others}
        for pid, parent in parents.items():
            if parent == self._shim:
                return MainProcess(pid, gone=False)
        inside = bool(others) and all(parent in pids for parent in parents.values())
        return MainProcess(0, gone=inside)

    def kill_others(self) -> int:
        """Kill everybody but the residents; return how many when none is left.

        Raises:
            SandboxLostError: the container died, or somebody cannot be killed.
        """
        killed: set[int] = set()
        deadline = time.monotonic() + _KILL_SECONDS
        while not self.have_settled():
            killed |= self._kill_round()
            if time.monotonic() >= deadline:
                left = len(self._group.list_pids()) - _RESIDENTS
                raise SandboxLostError(f"{left} processes of the command cannot be killed")
        return len(killed)

    def _kill_round(self) -> set[int]:
        with self._frozen():
            others = set(self._group.list_pids()) - set(self._residents)
            return {pid for pid in others if self._kill(pid)}

    @contextmanager
    def _frozen(self) -> Iterator[None]:
        try:
            self._freezer.freeze()
            yield
        finally:
            self._freezer.thaw()

    def _kill(self, pid: int) -> bool:
        try:
            pidfd = os.pidfd_open(pid)
        except ProcessLookupError:
            return False
        try:
            # The id may have been reused since the list was read: ask again, then signal what
            # the descriptor stands for, never the number.
            if pid in self._group.list_pids():
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)
                return True
        except ProcessLookupError:
            return False
        finally:
            os.close(pidfd)
        return False


@contextmanager
def open_processes(group: ControlGroup, freezer: Freezer, *, init_pid: int) -> Iterator[Processes]:
    """Wait for init and keeper and hold on to them.

    Raises:
        SandboxLostError: they do not come up.
    """
    with ExitStack() as stack:
        residents: dict[int, int] = {}
        for pid in _await_residents(group, init_pid):
            try:
                residents[pid] = os.pidfd_open(pid)
            except ProcessLookupError as error:
                raise SandboxLostError("the container died while starting") from error
            stack.callback(os.close, residents[pid])
        yield Processes(group, freezer, residents=residents, shim=_parent_of(init_pid))


def _await_residents(group: ControlGroup, init_pid: int) -> tuple[int, ...]:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        pids = group.list_pids()
        if len(pids) == _RESIDENTS and init_pid in pids:
            return pids
        time.sleep(_FIRST_PAUSE_SECONDS)
    raise SandboxLostError("the container did not start its first processes")


def _has_exited(pidfd: int) -> bool:
    poll = select.poll()  # unlike select(2), works above 1024 descriptors
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(0))


def _parent_of(pid: int) -> int:
    """Return a process's parent; 0 when the process is gone."""
    fields = _read_stat(pid)
    return int(fields[1]) if fields else 0


def _is_exiting(pid: int) -> bool:
    """Tell whether a process has begun to exit, or is gone."""
    fields = _read_stat(pid)
    return not fields or bool(int(fields[6]) & _PF_EXITING)


def _read_stat(pid: int) -> list[bytes]:
    """Return the fields of proc(5)'s stat from the state on; none when the process is gone."""
    with suppress(OSError):
        stat = (Path("/proc") / str(pid) / "stat").read_bytes()
        return stat.rpartition(b")")[2].split()
    return []
