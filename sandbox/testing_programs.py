"""Programs of the in-memory double: a few known ones, and whatever a test adds.

A command is looked up by its program's name; `sh -c` understands lists of commands (`;`, `&&`,
newlines), quotes, `>` and `>>`. Time is not spent: a program says how long it would have taken.
"""

from __future__ import annotations

import hashlib
import posixpath
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sandbox.command import CappedOutput, Command, CommandResult, Ending
from sandbox.testing_files import MemoryFiles

NOT_FOUND = 127  # POSIX shell: the utility was not found
_SHELLS = ("sh", "bash")
_SEPARATORS = (";", "&&")
_REDIRECTS = (">", ">>")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramCall:
    """One program as it is started."""

    argv: tuple[str, ...]
    cwd: str = "/workspace"
    environment: Mapping[str, str] = field(default_factory=dict)
    stdin: bytes = b""
    files: MemoryFiles

    def path(self, name: str) -> str:
        """Return a file name as an absolute one."""
        return posixpath.normpath(posixpath.join(self.cwd, name))


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramOutcome:
    """What became of one program."""

    exit_code: int = 0
    stdout: bytes = b""
    stderr: bytes = b""
    seconds: float = 0.0
    """How long it would have taken; beyond the limit it is timed out."""
    ending: Ending = Ending.EXITED
    """Another one to have it killed, out of memory and so on."""
    exits_shell: bool = False
    """The list of commands that it stands in ends here."""


RunProgram = Callable[[ProgramCall], ProgramOutcome]


@dataclass(frozen=True, slots=True, kw_only=True)
class FakeProgram:
    """A program of a test: answers commands of its name."""

    name: str
    """Compared with the last component of `argv[0]`."""
    script: str = ""
    """With a shell's name: only commands with this very text after `-c`."""
    run: RunProgram

    def answers(self, argv: Sequence[str]) -> bool:
        """Tell whether this is the program of an argument vector."""
        if posixpath.basename(argv[0]) != self.name:
            return False
        return not self.script or (len(argv) > 2 and argv[1:3] == ("-c", self.script))


def run_program(call: ProgramCall, programs: Sequence[FakeProgram]) -> ProgramOutcome:
    """Run what an argument vector names: a test's program first, then a built-in, else 127."""
    added = next((one for one in programs if one.answers(call.argv)), None)
    if added is not None:
        return added.run(call)
    name = posixpath.basename(call.argv[0])
    if name in _SHELLS and len(call.argv) > 2 and call.argv[1] == "-c":
        return _run_shell(call, programs)
    built_in = _BUILT_INS.get(name)
    if built_in is None:
        said = f"sandbox: {call.argv[0]!r}: not found\n".encode()
        return ProgramOutcome(exit_code=NOT_FOUND, stderr=said)
    return built_in(call)


def _run_shell(call: ProgramCall, programs: Sequence[FakeProgram]) -> ProgramOutcome:
    script = call.argv[2]
    if script.rstrip().endswith('-c "$1"') and len(call.argv) > 4:
        script = call.argv[4]  # a script that hands its first argument on to a shell
    whole = ProgramOutcome()
    for separator, words in _split(script):
        if separator == "&&" and whole.exit_code != 0:
            continue
        step = _run_words(replace(call, argv=tuple(words)), programs)
        whole = replace(
            step,
            stdout=whole.stdout + step.stdout,
            stderr=whole.stderr + step.stderr,
            seconds=whole.seconds + step.seconds,
        )
        if step.exits_shell or step.ending is not Ending.EXITED:
            break
    return replace(whole, exits_shell=False)


def _split(script: str) -> Iterator[tuple[str, list[str]]]:
    """Yield each simple command with what stands before it."""
    separator, words = ";", list[str]()
    lexer = shlex.shlex(script.replace("\n", " ; "), posix=True, punctuation_chars=";&>")
    lexer.whitespace_split = True
    for token in lexer:
        if token in _SEPARATORS:
            if words:
                yield separator, words
            separator, words = token, []
        else:
            words.append(token)
    if words:
        yield separator, words


def _run_words(call: ProgramCall, programs: Sequence[FakeProgram]) -> ProgramOutcome:
    target = next((index for index, word in enumerate(call.argv) if word in _REDIRECTS), None)
    if target is None:
        return run_program(call, programs)
    outcome = run_program(replace(call, argv=call.argv[:target]), programs)
    path = call.path(call.argv[target + 1])
    old = call.files.read(path) if call.argv[target] == ">>" else None
    call.files.write(path, (old or b"") + outcome.stdout)
    return replace(outcome, stdout=b"")


def _echo(call: ProgramCall) -> ProgramOutcome:
    return ProgramOutcome(stdout=" ".join(call.argv[1:]).encode() + b"\n")


def _cat(call: ProgramCall) -> ProgramOutcome:
    if len(call.argv) == 1:
        return ProgramOutcome(stdout=call.stdin)
    parts = [(name, call.files.read(call.path(name))) for name in call.argv[1:]]
    missing = [name for name, data in parts if data is None]
    said = "".join(f"cat: {name}: No such file or directory\n" for name in missing)
    return ProgramOutcome(
        exit_code=1 if missing else 0,
        stdout=b"".join(data for _name, data in parts if data is not None),
        stderr=said.encode(),
    )


def _tee(call: ProgramCall) -> ProgramOutcome:
    for name in call.argv[1:]:
        call.files.write(call.path(name), call.stdin)
    return ProgramOutcome(stdout=call.stdin)


def _rm(call: ProgramCall) -> ProgramOutcome:
    forced = any(word.startswith("-") and "f" in word for word in call.argv[1:])
    names = [word for word in call.argv[1:] if not word.startswith("-")]
    missing = [name for name in names if not call.files.delete(call.path(name))]
    said = "".join(f"rm: cannot remove '{name}'\n" for name in missing)
    return (
        ProgramOutcome()
        if forced or not missing
        else ProgramOutcome(exit_code=1, stderr=said.encode())
    )


def _chmod(call: ProgramCall) -> ProgramOutcome:
    mode = int(call.argv[1], 8)
    for name in call.argv[2:]:
        data = call.files.read(call.path(name))
        if data is None:
            return ProgramOutcome(exit_code=1, stderr=b"chmod: cannot access\n")
        call.files.write(call.path(name), data, mode=mode)
    return ProgramOutcome()


def _ln(call: ProgramCall) -> ProgramOutcome:
    target, name = call.argv[-2:]
    call.files.link(call.path(name), target)
    return ProgramOutcome()


def _sleep(call: ProgramCall) -> ProgramOutcome:
    return ProgramOutcome(seconds=float(call.argv[1]))


def _exit(call: ProgramCall) -> ProgramOutcome:
    code = int(call.argv[1]) if len(call.argv) > 1 else 0
    return ProgramOutcome(exit_code=code, exits_shell=True)


def _printenv(call: ProgramCall) -> ProgramOutcome:
    value = call.environment.get(call.argv[1])
    if value is None:
        return ProgramOutcome(exit_code=1)
    return ProgramOutcome(stdout=value.encode() + b"\n")


def _pwd(call: ProgramCall) -> ProgramOutcome:
    return ProgramOutcome(stdout=call.cwd.encode() + b"\n")


def _succeed(_call: ProgramCall) -> ProgramOutcome:
    return ProgramOutcome()


def _fail(_call: ProgramCall) -> ProgramOutcome:
    return ProgramOutcome(exit_code=1)


_BUILT_INS: Mapping[str, RunProgram] = {
    "cat": _cat,
    "chmod": _chmod,
    "echo": _echo,
    "exit": _exit,
    "false": _fail,
    "ln": _ln,
    "printenv": _printenv,
    "pwd": _pwd,
    "rm": _rm,
    "sleep": _sleep,
    "tee": _tee,
    "true": _succeed,
}


def make_result(outcome: ProgramOutcome, command: Command) -> CommandResult:
    """Return a program's outcome as a sandbox tells it."""
    ended = outcome.ending is Ending.EXITED
    return CommandResult(
        ending=outcome.ending,
        exit_code=outcome.exit_code if ended else None,
        stdout=cap_output(outcome.stdout, command.output_bytes),
        stderr=cap_output(outcome.stderr, command.output_bytes),
        wall_seconds=outcome.seconds,
        detail="" if ended else f"scripted: {outcome.ending.value}",
    )


def cap_output(data: bytes, cap_bytes: int) -> CappedOutput:
    """Return an output as a sandbox keeps it: both ends, half of the cap each."""
    digest = hashlib.sha256(data).hexdigest()
    if len(data) <= cap_bytes:
        return CappedOutput(head=data, total_bytes=len(data), sha256=digest)
    head = (cap_bytes + 1) // 2
    tail = data[len(data) - (cap_bytes - head) :]
    return CappedOutput(head=data[:head], tail=tail, total_bytes=len(data), sha256=digest)
