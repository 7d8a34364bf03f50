"""One guard, the commands that try to break it, and the judgement of what came of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib import resources

from sandbox.command import Command, CommandResult
from sandbox.sandbox import Sandbox

PROGRAM = "python3"
END = "end"
"""The last line of the program inside: without it, it was cut off."""

_MODULES = ("__init__", "report", "surface", "limits", "main")  # each after those it imports
_START = """
import sys, types
for name, text in TEXTS.items():
    full = "sandbox.probes.inside" + ("" if name == "__init__" else "." + name)
    module = sys.modules[full] = types.ModuleType(full)
    exec(compile(text, full, "exec"), module.__dict__)
    setattr(sys.modules["sandbox.probes.inside"], name, module)
module.main(*sys.argv[1:])
"""
_TIMEOUT_SECONDS = 20.0
_SHOWN_CHARACTERS = 200


class Standing(StrEnum):
    """What is known of a guard here."""

    #: it was tried to break it, and it held
    PROVED = "proved"
    #: it did not hold, or gave no answer
    FAILED = "failed"
    #: this host or engine cannot do it or cannot try it
    NOT_POSSIBLE = "not_possible"
    #: the policy does not ask for it
    NOT_ASKED = "not_asked"


@dataclass(frozen=True, slots=True)
class Finding:
    """What is known of one guard, and the fact that says so."""

    standing: Standing
    fact: str


Results = Sequence[CommandResult]
Judge = Callable[[Results], Finding]


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """One guard and how it is tried."""

    guard: str
    """Name of the guard; unique."""
    tries: str
    """What is tried, for a person."""
    commands: tuple[Command, ...]
    """Run one after the other in one sandbox; none = nothing can be tried."""
    judge: Judge
    """Gets one result for each command."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One thing that the program inside tried."""

    what: str
    outcome: str
    """Name of an error (`EROFS`), `done`, or a fact."""


class NoAnswerError(Exception):
    """The program inside did not say all that it should have."""


def run_probe(probe: Probe, sandbox: Sandbox) -> Finding:
    """Try to break a guard from inside a sandbox.

    Raises:
        SandboxLostError: the container did not outlive it.
        EngineUnavailableError: the engine stopped answering.
    """
    return probe.judge([sandbox.run(command) for command in probe.commands])


def make_command(
    name: str,
    *arguments: object,
    timeout_seconds: float = _TIMEOUT_SECONDS,
    output_bytes: int = 64 * 1024,
) -> Command:
    """Return the command that runs one attempt of `inside` with the image's own Python."""
    return Command(
        argv=(PROGRAM, "-I", "-c", read_program(), name, *map(str, arguments)),
        environment=(("RES_OPTIONS", "timeout:1 attempts:1"),),  # resolv.conf(5)
        timeout_seconds=timeout_seconds,
        output_bytes=output_bytes,
    )


@cache
def read_program() -> str:
    """Return the text of the program that runs inside: its modules, then what starts it."""
    folder = resources.files("sandbox.probes").joinpath("inside")
    texts = {name: folder.joinpath(f"{name}.py").read_text("utf-8") for name in _MODULES}
    return f"TEXTS = {texts!r}\n{_START}"


def read_attempts(result: CommandResult) -> tuple[Attempt, ...]:
    """Return what the program inside tried.

    Raises:
        NoAnswerError: it ended before its last line.
    """
    lines = result.stdout.head.decode("utf-8", "replace").splitlines()
    if not lines or lines[-1] != END:
        raise NoAnswerError(f"the probe gave no whole answer: {_describe(result)}")
    pairs = (line.partition("\t") for line in lines[:-1])
    return tuple(Attempt(what, outcome) for what, _tab, outcome in pairs)


def judge_refused(*allowed: str) -> Judge:
    """Return a judge for whom each attempt must have had one of these outcomes."""

    def judge(results: Results) -> Finding:
        try:
            attempts = [one for result in results for one in read_attempts(result)]
        except NoAnswerError as error:
            return failed(str(error))
        broken = [one for one in attempts if one.outcome not in allowed]
        if broken or not attempts:
            told = "; ".join(f"{one.what}: {one.outcome}" for one in broken)
            return failed(told or "nothing was tried")
        outcomes = ", ".join(sorted({one.outcome for one in attempts}))
        return proved(f"{len(attempts)} tried: {outcomes}")

    return judge


def not_asked(guard: str, *, tries: str, because: str) -> Probe:
    """Return the place of a guard that the policy does not ask for."""
    finding = Finding(Standing.NOT_ASKED, because)
    return Probe(guard=guard, tries=tries, commands=(), judge=lambda _results: finding)


def proved(fact: str) -> Finding:
    """Return the finding of a guard that held."""
    return Finding(Standing.PROVED, fact[:_SHOWN_CHARACTERS])


def failed(fact: str) -> Finding:
    """Return the finding of a guard that did not hold."""
    return Finding(Standing.FAILED, fact[:_SHOWN_CHARACTERS])


def _describe(result: CommandResult) -> str:
    said = result.stderr.head.decode("utf-8", "replace").strip().splitlines()
    exit_code = "" if result.exit_code is None else f" {result.exit_code}"
    return f"{result.ending.value}{exit_code} {said[-1] if said else ''}".strip()
