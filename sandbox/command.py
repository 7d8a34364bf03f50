"""One command in a sandbox and what became of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol


class Ending(StrEnum):
    """How a command ended, from the engine's and the kernel's own facts."""

    #: it ended by itself; `exit_code` says how
    EXITED = "exited"
    #: the time limit fired and everything it had started was killed
    TIMED_OUT = "timed_out"
    #: the kernel killed a process of it for memory
    OUT_OF_MEMORY = "out_of_memory"
    #: a signal that we did not send ended it
    KILLED = "killed"
    #: we stopped it: cancelled or suspended
    STOPPED = "stopped"
    #: the limit on processes was hit and it failed
    RESOURCE_LIMIT = "resource_limit"
    #: the task's volume was full and it failed
    DISK_FULL = "disk_full"


@dataclass(frozen=True, slots=True, kw_only=True)
class CappedOutput:
    """The kept part of one output stream: its first and last bytes."""

    head: bytes = b""
    tail: bytes = b""
    """Empty unless bytes between head and tail are missing."""
    total_bytes: int = 0
    sha256: str = ""
    """Hexadecimal digest over all bytes, also the missing ones."""

    @property
    def missing_bytes(self) -> int:
        """How many bytes between head and tail were dropped."""
        return self.total_bytes - len(self.head) - len(self.tail)


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """What to run inside a sandbox. There is no shell unless argv names one."""

    argv: tuple[str, ...]
    cwd: str = "/workspace"
    environment: tuple[tuple[str, str], ...] = ()
    """Added to the sandbox's own environment."""
    stdin: bytes = b""
    timeout_seconds: float = 120
    output_bytes: int = 16 * 1024 * 1024
    """How much of each stream is kept; the rest is counted and hashed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandResult:
    """What became of a command. A failing command is a result, never an error."""

    ending: Ending
    exit_code: int | None
    """None when it did not end by itself."""
    stdout: CappedOutput = field(default_factory=CappedOutput)
    stderr: CappedOutput = field(default_factory=CappedOutput)
    wall_seconds: float = 0.0
    cpu_seconds: float = 0.0
    killed_processes: int = 0
    """Processes that were still alive when it ended and had to be killed."""
    limit: str = ""
    """Name of the policy's limit on the volume that was used up: disk_mib or inodes."""
    detail: str = ""
    """Facts behind the ending, for a person: the counter or the signal that said so."""

    @property
    def ok(self) -> bool:
        """Tell whether it ended by itself with exit code 0."""
        return self.ending is Ending.EXITED and self.exit_code == 0


class StopSignal(Protocol):
    """Asked often while a command runs whether it shall be stopped now."""

    def is_set(self) -> bool:
        """Tell whether to stop. `threading.Event` is one."""
        ...
