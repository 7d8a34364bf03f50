"""A container's control group, read and written on the host: the kernel's own facts.

Version 1 (one tree per controller) and version 2 (one tree) answer the same questions. The
counters are what tells an ending apart: a container cannot forge them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from sandbox.errors import SandboxLostError, UnsupportedError

_FREEZE_SECONDS = 0.3  # an exec that is being set up may not freeze; the kill works all the same
_POLL_SECONDS = 0.0005
_V2 = ""  # the controller's name of version 2 in /proc/<pid>/cgroup
_NEEDED_V1 = ("memory", "pids", "freezer", "cpuacct")


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """What a control group has counted since it was made."""

    oom_kills: int
    """Processes that the kernel killed for memory."""
    pids_refused: int
    """Forks refused by the limit on processes."""
    cpu_seconds: float


class ControlGroup(Protocol):
    """The control group of one container."""

    def count_tasks(self) -> int:
        """Return how many threads live in it, zombies included; one atomic counter.

        Raises:
            SandboxLostError: the group is gone, so the container is.
        """
        ...

    def list_pids(self) -> tuple[int, ...]:
        """Return the host's ids of its living processes.

        Raises:
            SandboxLostError: the group is gone.
        """
        ...

    def read_counters(self) -> Counters:
        """Return the counters as they are now.

        Raises:
            SandboxLostError: the group is gone.
        """
        ...

    def may_freeze(self) -> bool:
        """Tell whether we may write to it."""
        ...

    def freeze(self) -> None:
        """Stop every process of it; return when they stand still or after a few seconds."""
        ...

    def thaw(self) -> None:
        """Let them go on."""
        ...


class ControlGroupV1:
    """Control groups version 1."""

    def __init__(self, directories: Mapping[str, Path]) -> None:
        self._memory = directories["memory"]
        self._pids = directories["pids"]
        self._freezer = directories["freezer"]
        self._cpuacct = directories["cpuacct"]

    def count_tasks(self) -> int:
        """Return how many threads live in it; see ControlGroup."""
        return int(_read(self._pids / "pids.current"))

    def list_pids(self) -> tuple[int, ...]:
        """Return the processes; see ControlGroup."""
        return tuple(int(pid) for pid in _read(self._freezer / "cgroup.procs").split())

    def read_counters(self) -> Counters:
        """Return the counters; see ControlGroup."""
        # memory.failcnt stays 0 after real kills; oom_kill is right.
        return Counters(
            oom_kills=_read_key(self._memory / "memory.oom_control", "oom_kill"),
            pids_refused=_read_key(self._pids / "pids.events", "max"),
            cpu_seconds=int(_read(self._cpuacct / "cpuacct.usage")) / 1e9,
        )

    def may_freeze(self) -> bool:
        """Tell whether we may write to it."""
        return _may_write(self._freezer / "freezer.state")

    def freeze(self) -> None:
        """Stop every process of it; see ControlGroup."""
        state = self._freezer / "freezer.state"
        _write(state, "FROZEN")
        _await(lambda: _read(state).strip() == "FROZEN")

    def thaw(self) -> None:
        """Let them go on."""
        _write(self._freezer / "freezer.state", "THAWED")


class ControlGroupV2:
    """Control groups version 2, the unified hierarchy."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def count_tasks(self) -> int:
        """Return how many threads live in it; see ControlGroup."""
        return int(_read(self._directory / "pids.current"))

    def list_pids(self) -> tuple[int, ...]:
        """Return the processes; see ControlGroup."""
        return tuple(int(pid) for pid in _read(self._directory / "cgroup.procs").split())

    def read_counters(self) -> Counters:
        """Return the counters; see ControlGroup."""
        return Counters(
            oom_kills=_read_key(self._directory / "memory.events", "oom_kill"),
            pids_refused=_read_key(self._directory / "pids.events", "max"),
            cpu_seconds=_read_key(self._directory / "cpu.stat", "usage_usec") / 1e6,
        )

    def may_freeze(self) -> bool:
        """Tell whether we may write to it."""
        return _may_write(self._directory / "cgroup.freeze")

    def freeze(self) -> None:
        """Stop every process of it; see ControlGroup."""
        _write(self._directory / "cgroup.freeze", "1")
        _await(lambda: _read_key(self._directory / "cgroup.events", "frozen") == 1)

    def thaw(self) -> None:
        """Let them go on."""
        _write(self._directory / "cgroup.freeze", "0")


def find_control_group(pid: int, *, proc: Path = Path("/proc")) -> ControlGroup:
    """Return the control group of a process, of whichever version this host uses.

    Raises:
        SandboxLostError: the process is gone.
        UnsupportedError: its group cannot be seen from here: another host or another namespace.
    """
    groups = _parse_membership(_read(proc / str(pid) / "cgroup"))
    mounts = _parse_mounts((proc / "self" / "mountinfo").read_text())
    if all(name in groups for name in _NEEDED_V1):
        return ControlGroupV1({name: _locate(name, groups, mounts) for name in _NEEDED_V1})
    return ControlGroupV2(_locate(_V2, groups, mounts))


def _parse_membership(text: str) -> Mapping[str, str]:
    groups: dict[str, str] = {}
    for line in text.splitlines():
        _number, names, path = line.split(":", 2)
        groups.update(dict.fromkeys(names.split(","), path))
    return groups


def _parse_mounts(text: str) -> Mapping[str, tuple[str, Path]]:
    """Return root and mount point of each controller, by name."""
    mounts: dict[str, tuple[str, Path]] = {}
    for line in text.splitlines():
        before, after = line.split(" - ", 1)
        root, point = before.split(" ")[3:5]
        kind, _source, options = after.split(" ", 2)
        if kind == "cgroup2":
            mounts[_V2] = (root, Path(point))
        if kind == "cgroup":
            for name in options.split(","):
                mounts.setdefault(name, (root, Path(point)))
    return mounts


def _locate(name: str, groups: Mapping[str, str], mounts: Mapping[str, tuple[str, Path]]) -> Path:
    group = groups.get(name, "")
    root, point = mounts.get(name, ("/", Path("/nonexistent")))
    inside = group.removeprefix(root.rstrip("/"))
    directory = point / inside.lstrip("/")
    if "/.." in group or not group or not directory.is_dir():
        raise UnsupportedError(
            f"control group {group!r} of the container is not visible below {str(point)!r}: "
            "the engine must run on this host, with its control groups mounted"
        )
    return directory


def _read(file: Path) -> str:
    try:
        return file.read_text()
    except OSError as error:  # ENOENT, ENODEV or ESRCH: all say that it is gone
        raise SandboxLostError(f"the container is gone: {error}") from error


def _read_key(file: Path, key: str) -> int:
    for line in _read(file).splitlines():
        name, _, value = line.partition(" ")
        if name == key:
            return int(value)
    return 0


def _write(file: Path, text: str) -> None:
    try:
        file.write_text(text)
    except OSError as error:
        raise SandboxLostError(f"the container cannot be controlled: {error}") from error


def _may_write(file: Path) -> bool:
    try:
        with file.open("a"):
            return True
    except OSError:
        return False


def _await(reached: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _FREEZE_SECONDS
    while not reached() and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
