"""What a command says in a home where there is nothing yet, without an engine."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import NoReturn

import pytest
import structlog
from rich.console import Console
from run_builders import FINISH, FIX, Yard, shell

from runner.adapters.memory_store import MemoryStore
from runner.adapters.results import FolderResultsWriter
from runner.application.capacity import Capacity, HostSize
from runner.bootstrap import App
from runner.entrypoints import watching
from runner.entrypoints.cli import run
from runner.entrypoints.context import Context
from runner.entrypoints.exit_codes import ExitCode, exit_code_of
from runner.entrypoints.submitting import store_batch
from runner.errors import ResultsError
from runner.settings import Settings, load_settings
from sandbox import EngineUnavailableError


@pytest.fixture
def yard() -> Yard:
    return Yard([shell(FIX)], [FINISH])


@pytest.fixture
def app(yard: Yard, tmp_path: Path) -> App:
    return App(
        settings=load_settings({"FORKYARD_HOME": str(tmp_path / "home")}),
        services=yard.services,
        capacity=Capacity(HostSize(memory_mib=4096, cpu_thousandths=4000)),
        results=FolderResultsWriter(),
    )


@pytest.fixture
def said() -> StringIO:
    return StringIO()


@pytest.fixture
def context(app: App, said: StringIO) -> Context:
    return open_with(Context(Console(file=said, width=80)), app)


def open_with(context: Context, app: App) -> Context:
    """Return a context that opens an application in memory."""

    @contextmanager
    def make_app(_settings: Settings) -> Iterator[App]:
        yield app

    return replace(context, read_settings=lambda: app.settings, make_app=make_app)


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [(["task", "show", "tzz"], "task 'tzz'"), (["batch", "status", "bzz"], "batch 'bzz'")],
)
def test_what_is_not_there_is_told_with_the_home(
    context: Context, app: App, capfd: pytest.CaptureFixture[str], arguments: list[str], kind: str
) -> None:
    assert run(arguments, context=context) == ExitCode.UNKNOWN

    assert (
        capfd.readouterr().err == f"forkyard: no {kind} in {app.settings.home} (FORKYARD_HOME)\n"
    )


@pytest.mark.parametrize("command", ["status", "resume", "watch", "report"])
def test_a_home_without_a_batch_says_so(
    context: Context, app: App, capfd: pytest.CaptureFixture[str], command: str
) -> None:
    empty = replace(app, services=replace(app.services, store=MemoryStore()))

    code = run(["batch", command], context=open_with(context, empty))

    assert code == ExitCode.UNKNOWN
    assert f"no batch yet in {app.settings.home} (FORKYARD_HOME)" in capfd.readouterr().err


def test_a_store_that_was_named_is_what_ids_belong_to(
    context: Context, app: App, capfd: pytest.CaptureFixture[str]
) -> None:
    settings = load_settings({"FORKYARD_HOME": "/h", "FORKYARD_STORE": "sqlite:////s/x.db"})

    run(["task", "show", "tzz"], context=open_with(context, replace(app, settings=settings)))

    assert "no task 'tzz' in sqlite:////s/x.db (FORKYARD_STORE)" in capfd.readouterr().err


def test_status_says_when_nobody_works_on_a_batch(
    context: Context, yard: Yard, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(["batch", "status"], context=context) == ExitCode.AS_WANTED
    assert f"`forkyard batch resume {yard.batch.batch_id}`" in capfd.readouterr().out

    run(["batch", "status", "--json"], context=context)
    assert json.loads(capfd.readouterr().out)["unattended"] is True


@pytest.mark.slow
def test_watch_says_once_that_nobody_works_and_goes_on_watching(
    context: Context, said: StringIO, capfd: pytest.CaptureFixture[str]
) -> None:
    def interrupt() -> None:
        until = time.monotonic() + 20
        while "no process works" not in said.getvalue() and time.monotonic() < until:
            time.sleep(0.01)
        time.sleep(3 * watching.LOOK_SECONDS)
        os.kill(os.getpid(), signal.SIGINT)

    person = threading.Thread(target=interrupt)
    person.start()
    code = run(["batch", "watch"], context=context)
    person.join()

    assert code == ExitCode.INTERRUPTED
    assert said.getvalue().count("no process works on it now") == 1
    assert "suspended" not in capfd.readouterr().out


def test_results_that_cannot_be_written_are_told_before_anything_is_stored(
    app: App, yard: Yard, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(ResultsError, match="name a folder that can be written with --results"):
        store_batch(
            app, yard.batch.spec, results=tmp_path / "file" / "results", say=lambda _line: None
        )

    with app.services.store.read() as view:
        assert len(view.list_batches()) == 1  # the yard's own
    assert exit_code_of(ResultsError("/r", "x")) == ExitCode.MISSING


def test_a_probe_of_results_leaves_only_the_folder(tmp_path: Path) -> None:
    FolderResultsWriter().probe(str(tmp_path / "a" / "results"))

    assert [one.name for one in tmp_path.rglob("*")] == ["a", "results"]


def test_an_engine_that_is_away_is_told_with_what_to_do(
    app: App, capfd: pytest.CaptureFixture[str]
) -> None:
    def fail(_settings: Settings) -> NoReturn:
        raise EngineUnavailableError("the engine does not answer (to look): Connection refused")

    context = Context(Console(file=StringIO()), read_settings=lambda: app.settings, make_app=fail)

    assert run(["batch", "status"], context=context) == ExitCode.MISSING
    assert capfd.readouterr().err == (
        "forkyard: the engine does not answer (to look): Connection refused; start it, or point"
        " DOCKER_HOST at one that runs; `forkyard doctor` says what is missing\n"
    )


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"script": "nope"}, "--script: no file "),
        ({"repo": "./nope"}, "--repo: no directory "),
        ({"verify": ""}, "--verify: must not be an empty list"),
        ({"verify": '"a'}, "--verify: No closing quotation"),
        ({"policy": "nope"}, "--policy: "),
        ({"protect": "["}, "--protect: "),
        ({"name": "a/b"}, "--name: "),
    ],
)
def test_task_run_names_the_option_that_is_wrong(
    context: Context,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    changed: dict[str, str],
    told: str,
) -> None:
    script = tmp_path / "script.json"
    script.write_text(json.dumps({"replies": [{"text": "done"}]}))
    asked = {"repo": str(tmp_path), "goal": "g", "script": str(script), "verify": "true"}
    options = [f"--{name}={value}" for name, value in {**asked, **changed}.items()]

    assert run(["task", "run", *options], context=context) == ExitCode.USAGE

    err = capfd.readouterr().err
    assert err.startswith(f"forkyard: {told}")
    assert "command line" not in err


def test_events_go_to_a_file_that_is_named(
    context: Context,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    request: pytest.FixtureRequest,
) -> None:
    path = tmp_path / "log.jsonl"
    request.addfinalizer(structlog.reset_defaults)

    assert run(["--log-file", str(path), "batch", "status"], context=context) == 0
    assert path.is_file()

    code = run(["--log-file", str(tmp_path / "no" / "x"), "batch", "status"], context=context)
    assert code == ExitCode.USAGE
    assert capfd.readouterr().err.endswith("no/x': No such file or directory\n")
