from __future__ import annotations

import json
from io import StringIO

import pytest
from rich.console import Console

from policies import FlaggedPath, PolicyFileError
from runner.entrypoints.cli import run
from runner.entrypoints.context import Context
from runner.entrypoints.exit_codes import ExitCode, error_to_json, exit_code_of
from runner.errors import (
    BatchFileError,
    ConflictError,
    FlaggedPathsError,
    MissingError,
    NotFoundError,
    RunnerError,
    StaleLeaseError,
    StoreUnusableError,
    UsageError,
)
from runner.settings import Settings
from sandbox import (
    BranchExistsError,
    CheckoutConflictError,
    EngineUnavailableError,
    ImageMissingError,
    SourceError,
    UnsupportedError,
)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (BatchFileError("f", 1, "x", "wrong"), ExitCode.USAGE),
        (UsageError("x"), ExitCode.USAGE),
        (PolicyFileError("f", 1, "x", "wrong"), ExitCode.USAGE),
        (SourceError("x", "gone"), ExitCode.USAGE),
        (MissingError("x"), ExitCode.MISSING),
        (ImageMissingError("python"), ExitCode.MISSING),
        (UnsupportedError("x"), ExitCode.MISSING),
        (EngineUnavailableError("x"), ExitCode.MISSING),
        (StoreUnusableError("x"), ExitCode.MISSING),
        (ConflictError("x"), ExitCode.CONFLICT),
        (StaleLeaseError("r1"), ExitCode.CONFLICT),
        (NotFoundError("task", "t1"), ExitCode.UNKNOWN),
        (FlaggedPathsError([FlaggedPath(b".envrc", "shell", "why")]), ExitCode.UNKNOWN),
        (BranchExistsError("/r", "b"), ExitCode.CONFLICT),
        (CheckoutConflictError("/r", [(b"a", "why")]), ExitCode.CONFLICT),
        (RunnerError("x"), ExitCode.NOT_AS_WANTED),
    ],
)
def test_each_kind_of_error_has_the_exit_code_of_the_design(
    error: Exception, code: ExitCode
) -> None:
    assert exit_code_of(error) is code


def test_an_error_object_says_code_message_and_place() -> None:
    assert error_to_json(BatchFileError("b.yaml", 3, "tasks", "must be a list")) == {
        "schema": 1,
        "error": {
            "code": "batch_file",
            "message": "b.yaml:3: tasks: must be a list",
            "where": {"file": "b.yaml", "line": 3, "field": "tasks"},
        },
    }


def test_further_problems_of_a_file_are_listed_apart() -> None:
    more = (BatchFileError("b.yaml", 5, "x", "unknown key"),)
    shown = error_to_json(BatchFileError("b.yaml", 3, "tasks", "must be a list", others=more))

    error = shown["error"]
    assert isinstance(error, dict)
    assert error["message"] == "b.yaml:3: tasks: must be a list"
    assert error["others"] == [
        {"message": "unknown key", "where": {"file": "b.yaml", "line": 5, "field": "x"}}
    ]


def missing_home() -> Settings:
    raise MissingError("set FORKYARD_HOME")


@pytest.fixture
def context() -> Context:
    return Context(Console(file=StringIO()), read_settings=missing_home)


def test_our_errors_are_one_line_on_standard_error(
    context: Context, capfd: pytest.CaptureFixture[str]
) -> None:
    code = run(["batch", "status"], context=context)

    assert code == ExitCode.MISSING
    assert capfd.readouterr() == ("", "forkyard: set FORKYARD_HOME\n")


def test_with_json_an_error_is_an_object_with_the_same_exit_code(
    context: Context, capfd: pytest.CaptureFixture[str]
) -> None:
    code = run(["batch", "status", "--json"], context=context)

    out, err = capfd.readouterr()
    assert (code, err) == (ExitCode.MISSING, "")
    assert json.loads(out)["error"]["code"] == "missing"


def test_wrong_usage_with_json_is_an_object_too(
    context: Context, capfd: pytest.CaptureFixture[str]
) -> None:
    code = run(["batch", "run", "--json"], context=context)

    out, err = capfd.readouterr()
    assert (code, err) == (ExitCode.USAGE, "")
    assert json.loads(out)["error"]["code"] == "usage"


@pytest.mark.parametrize(
    "arguments",
    [[], ["nonsense"], ["batch", "run"], ["task", "show"], ["policy", "explain", "repair"]],
)
def test_wrong_usage_is_told_on_standard_error(
    context: Context, arguments: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    code = run(arguments, context=context)

    assert code in (ExitCode.USAGE, ExitCode.MISSING)
    assert capfd.readouterr().out == ""


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["--version"],
        ["batch", "--help"],
        ["batch", "run", "--help"],
        ["task", "run", "--help"],
        ["policy", "explain", "--help"],
        ["rollout", "verify", "--help"],
        ["worker", "--help"],
        ["demo", "--help"],
    ],
)
def test_help_needs_no_set_up(context: Context, arguments: list[str]) -> None:
    assert run(arguments, context=context) == ExitCode.AS_WANTED
