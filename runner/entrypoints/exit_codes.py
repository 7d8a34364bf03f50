"""Exit codes and error objects of the command line."""

from __future__ import annotations

from enum import IntEnum

from policies import Json, PolicyError, PolicyFileError
from runner.application.report import SCHEMA
from runner.errors import (
    BatchFileError,
    ConflictError,
    FlaggedPathsError,
    MissingError,
    NotFoundError,
    ResultsError,
    RunnerError,
    StoreError,
    UsageError,
)
from sandbox import (
    BranchExistsError,
    CheckoutConflictError,
    DiskFullError,
    EngineError,
    EngineUnavailableError,
    ImageMissingError,
    SandboxError,
    SourceError,
    UnsupportedError,
)


class ExitCode(IntEnum):
    """What the shell is told."""

    AS_WANTED = 0
    #: ended, but not all as wanted
    NOT_AS_WANTED = 1
    #: wrong usage or input
    USAGE = 2
    #: the environment lacks something
    MISSING = 3
    #: busy, already decided, changed meanwhile
    CONFLICT = 4
    #: unknown or not allowed
    UNKNOWN = 5
    INTERRUPTED = 130


ENGINE_ADVICE = (
    "start it, or point DOCKER_HOST at one that runs; `forkyard doctor` says what is missing"
)

OUR_ERRORS = (RunnerError, SandboxError, PolicyError)
"""Errors that are for the person; every other exception is a bug."""

_CODES: tuple[tuple[type[Exception], ExitCode, str], ...] = (
    (BatchFileError, ExitCode.USAGE, "batch_file"),
    (UsageError, ExitCode.USAGE, "usage"),
    (NotFoundError, ExitCode.UNKNOWN, "not_found"),
    (ConflictError, ExitCode.CONFLICT, "conflict"),
    (FlaggedPathsError, ExitCode.UNKNOWN, "flagged"),
    (MissingError, ExitCode.MISSING, "missing"),
    (ResultsError, ExitCode.MISSING, "results"),
    (StoreError, ExitCode.MISSING, "store"),
    (BranchExistsError, ExitCode.CONFLICT, "branch_exists"),
    (CheckoutConflictError, ExitCode.CONFLICT, "checkout_conflict"),
    (SourceError, ExitCode.USAGE, "source"),
    (ImageMissingError, ExitCode.MISSING, "image_missing"),
    (UnsupportedError, ExitCode.MISSING, "unsupported"),
    (EngineError, ExitCode.MISSING, "engine"),
    (DiskFullError, ExitCode.MISSING, "disk_full"),
    (PolicyError, ExitCode.USAGE, "policy"),
)


def exit_code_of(error: Exception) -> ExitCode:
    """Return the exit code of one of our errors."""
    found = next((code for kind, code, _ in _CODES if isinstance(error, kind)), None)
    return ExitCode.NOT_AS_WANTED if found is None else found


def message_of(error: Exception) -> str:
    """Return what a person is told; for an engine that is away, also what to do."""
    if isinstance(error, EngineUnavailableError):
        return f"{error}; {ENGINE_ADVICE}"
    return str(error)


def error_to_json(error: Exception) -> dict[str, Json]:
    """Return the object that scripts get in place of an answer."""
    fallback = getattr(error, "code", "error")
    name = next((name for kind, _, name in _CODES if isinstance(error, kind)), str(fallback))
    shown: dict[str, Json] = {"code": name, "message": message_of(error), "where": _where(error)}
    if isinstance(error, BatchFileError) and error.others:
        shown["message"] = str(error).splitlines()[0]
        shown["others"] = [{"message": one.problem, "where": _where(one)} for one in error.others]
    return {"schema": SCHEMA, "error": shown}


def make_error_json(code: str, message: str) -> dict[str, Json]:
    """Return an error object for what is not one of our exceptions."""
    return {"schema": SCHEMA, "error": {"code": code, "message": message, "where": None}}


def _where(error: Exception) -> Json:
    if isinstance(error, (BatchFileError, PolicyFileError)):
        return {"file": error.file, "line": error.line, "field": error.field}
    return None
