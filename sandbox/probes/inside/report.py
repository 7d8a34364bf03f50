"""What the attempts share: saying what came of them, and looking around."""

from __future__ import annotations

import errno
import os
import socket
import sys
from collections.abc import Callable


def say(what: str, outcome: object) -> None:
    """Print one attempt at once: the next one may end everything."""
    sys.stdout.write(f"{what}\t{' '.join(str(outcome).split())}\n")
    sys.stdout.flush()


def attempt(what: str, act: Callable[[], object]) -> None:
    """Try something and say what came of it."""
    try:
        outcome = act()
    except socket.gaierror as error:
        names = [name for name in dir(socket) if name.startswith("EAI_")]
        known = {getattr(socket, name): name for name in names}
        say(what, known.get(error.errno, error))
    except TimeoutError:
        say(what, "no answer")
    except OSError as error:
        say(what, errno.errorcode.get(error.errno or 0, error))
    else:
        say(what, "done" if outcome is None else outcome)


def fail() -> None:
    """End as a program does that was refused what it needs."""
    sys.stdout.write("end\n")
    sys.stdout.flush()
    os._exit(1)


def list_mounts() -> list[tuple[str, str]]:
    """Return each mount point and whether it is `ro` or `rw`."""
    with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as file:
        rows = [line.split() for line in file]
    return [(row[4], row[5].split(",")[0]) for row in rows]


def list_others() -> list[str]:
    """Return the names of processes that are neither this one nor the container's own two."""
    found = []
    for name in filter(str.isdecimal, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
                text = file.read()
        except OSError:
            continue
        program = text[text.index("(") + 1 : text.rindex(")")]
        parent = text[text.rindex(")") + 2 :].split()[1]
        is_keeper = parent == "1" and program == "sleep"
        if name not in ("1", str(os.getpid())) and not is_keeper:
            found.append(program)
    return found[:20]
