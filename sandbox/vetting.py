"""What a command must fulfil before anything is started, in every implementation of the port."""

from __future__ import annotations

import posixpath

from sandbox.command import Command
from sandbox.errors import CommandRefusedError

CWD_ROOTS = ("/workspace", "/home/agent", "/tmp")  # noqa: S108 - the container's own

_LONGEST_BYTES = 128 * 1024 - 1  # linux/binfmts.h: MAX_ARG_STRLEN, with the final NUL
_TOTAL_BYTES = 1024 * 1024  # half of what execve(2) takes with the usual stack limit
_MOST_ARGUMENTS = 4096
_MOST_STDIN_BYTES = 64 * 1024 * 1024
# They make any program run other code before its own first line.
_REFUSED_NAMES = ("LD_PRELOAD", "LD_AUDIT", "BASH_ENV")


def vet_command(command: Command) -> None:
    """Check argument vector, environment, working directory and standard input.

    Raises:
        CommandRefusedError: it could not be started as it stands; nothing was started.
    """
    problem = (
        _find_problem_of_argv(command.argv)
        or _find_problem_of_environment(command.environment)
        or _find_problem_of_cwd(command.cwd)
        or _find_problem_of_sizes(command)
    )
    if problem:
        raise CommandRefusedError(problem)


def _find_problem_of_argv(argv: tuple[str, ...]) -> str:
    if not argv or not argv[0]:
        return "the program's name is empty"
    if len(argv) > _MOST_ARGUMENTS:
        return f"{len(argv)} arguments; at most {_MOST_ARGUMENTS}"
    for index, argument in enumerate(argv):
        if problem := _find_problem_of_text(argument):
            return f"argument {index} {problem}"
    return ""


def _find_problem_of_environment(environment: tuple[tuple[str, str], ...]) -> str:
    for name, value in environment:
        if not name or "=" in name:
            return f"{name!r} cannot name an environment variable"
        if name in _REFUSED_NAMES:
            return f"environment variable {name!r} is not passed"
        if problem := _find_problem_of_text(name) or _find_problem_of_text(value):
            return f"environment variable {name[:80]!r} {problem}"
    return ""


def _find_problem_of_cwd(cwd: str) -> str:
    if problem := _find_problem_of_text(cwd):
        return f"working directory {problem}"
    inside = any(cwd == root or cwd.startswith(f"{root}/") for root in CWD_ROOTS)
    if cwd != "/" and (not inside or posixpath.normpath(cwd) != cwd):
        return f"working directory {cwd[:200]!r} is not a plain path below {', '.join(CWD_ROOTS)}"
    return ""


def _find_problem_of_sizes(command: Command) -> str:
    total = sum(len(one.encode()) + 1 for one in command.argv)
    total += sum(
        len(name.encode()) + len(value.encode()) + 2 for name, value in command.environment
    )
    if total > _TOTAL_BYTES:
        return f"{total} bytes of arguments and environment; at most {_TOTAL_BYTES}"
    if len(command.stdin) > _MOST_STDIN_BYTES:
        return f"{len(command.stdin)} bytes of input; at most {_MOST_STDIN_BYTES}"
    return ""


def _find_problem_of_text(text: str) -> str:
    if "\0" in text:
        return "holds a NUL"
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        return "holds a lone surrogate"
    return f"is {size} bytes long; at most {_LONGEST_BYTES}" if size > _LONGEST_BYTES else ""
