"""What the measurements share: a home of their own, small batches, and the engine's own counts."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import docker
import structlog

from policies import canonical_json, load_policy
from runner.application.dispatch import Dispatcher, DispatchOptions
from runner.application.submit_batch import submit_batch
from runner.application.write_results import write_task_results
from runner.bootstrap import App, open_app, read_instance_id
from runner.domain.outcome import Outcome
from runner.domain.task import (
    AgentKind,
    AgentSpec,
    BatchBudget,
    BatchSpec,
    BudgetSpec,
    RepositorySpec,
    TaskSpec,
    VerifySpec,
)
from runner.settings import load_settings
from sandbox import CommitId, RepositoryId, SandboxSpec, Snapshot, SnapshotId
from sandbox.docker.specification import ContainerPlace, make_create_body


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What a measured batch looks like."""

    tasks: int
    parallel: int
    commands: tuple[str, ...]
    """Shell commands that each task's agent runs."""
    policy: str = "repair"
    image: str = "python"


@contextmanager
def open_bench() -> Iterator[App]:
    """Open an app on a home that is deleted afterwards; only warnings are logged."""
    quiet = structlog.make_filtering_bound_logger(logging.WARNING)
    structlog.configure(wrapper_class=quiet)
    with tempfile.TemporaryDirectory(prefix="forkyard-bench-") as folder:
        home = Path(folder) / "home"
        settings = load_settings({"FORKYARD_HOME": str(home), "HOME": folder, "PATH": "/usr/bin"})
        with open_app(settings) as app:
            yield app


def make_repository(folder: Path, *, files: int = 100) -> Path:
    """Make a git repository with that many small text files."""
    repository = folder / "repository"
    (repository / "src").mkdir(parents=True)
    for number in range(files):
        (repository / "src" / f"module_{number}.py").write_text(f"VALUE = {number}\n" * 50)
    git = ("git", "-C", str(repository), "-c", "user.name=bench", "-c", "user.email=bench@invalid")
    subprocess.run([*git, "init", "-q", "-b", "main"], check=True)
    subprocess.run([*git, "add", "-A"], check=True)
    subprocess.run([*git, "commit", "-q", "-m", "base"], check=True)
    return repository


def make_batch(shape: Shape, repository: Path, image: str) -> BatchSpec:
    """Return a batch of equal tasks whose agents run the shape's commands."""
    replies = [
        {"text": "", "calls": [{"tool": "shell", "arguments": {"command": command}}]}
        for command in shape.commands
    ]
    replies.append({"text": "", "calls": [{"tool": "finish", "arguments": {"summary": "done"}}]})
    script = canonical_json({"replies": replies}).decode()
    policy = load_policy(shape.policy, folder=None)
    task = TaskSpec(
        name="",
        goal="Run the commands.",
        repo=RepositorySpec(kind="path", location=str(repository)),
        image=image,
        policy=canonical_json(policy.source).decode(),
        agent=AgentSpec(kind=AgentKind.SCRIPTED, script=script),
        budget=BudgetSpec(tool_seconds=0, output_mib=0),
        verify=VerifySpec(argv=("true",)),
        expect=(Outcome.VERIFIED,),
    )
    tasks = tuple(
        task.model_copy(update={"name": f"task-{number}"}) for number in range(shape.tasks)
    )
    budget = BatchBudget(tasks_parallel=shape.parallel)
    return BatchSpec(name="bench", file=str(repository), budget=budget, tasks=tasks)


def run_batch(app: App, spec: BatchSpec, *, parallel: int) -> float:
    """Run a batch to its end and return the seconds it took.

    Raises:
        RuntimeError: a task did not verify, so the time means nothing.
    """
    started = time.monotonic()
    batch = submit_batch(spec, app.services, results=app.settings.home / "results")
    dispatcher = Dispatcher(
        app.services,
        app.capacity,
        options=DispatchOptions(batch_id=batch.batch_id, parallel=parallel),
        on_activity=lambda _task, _words: None,
        on_ended=lambda task: write_task_results(task.task_id, app.services, app.results),
    )
    dispatcher.run(threading.Event())
    seconds = time.monotonic() - started
    with app.services.store.read() as view:
        runs = view.list_last_runs(batch.batch_id)
    for run in runs:
        if run.outcome is not Outcome.VERIFIED:
            raise RuntimeError(f"{run.task_id}: {run.outcome}: {run.reason}")
    return seconds


@contextmanager
def count_operations(app: App) -> Iterator[Counter[str]]:
    """Count what the engine itself does for this instance, as it tells it."""
    client = docker.from_env()
    counts: Counter[str] = Counter()
    label = f"forkyard.instance={read_instance_id(app.settings.home)}"
    events = client.events(filters={"label": label}, decode=True)

    def listen() -> None:
        for event in events:
            counts[event["Action"].split(":")[0]] += 1

    thread = threading.Thread(target=listen)
    thread.start()
    try:
        yield counts
        deadline = time.monotonic() + 10
        while counts["destroy"] < counts["create"] and time.monotonic() < deadline:
            time.sleep(0.05)
    finally:
        events.close()
        thread.join()
        client.close()


def make_bare_body(image: str, folder: Path, *, policy: str = "repair") -> dict[str, object]:
    """Return the engine's request for a container of our specification, on plain folders."""
    for name in ("workspace", "home", "tmp", "base.git"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    given = load_policy(policy, folder=None).sandbox
    start = Snapshot(
        snapshot_id=SnapshotId(""),
        content_id="",
        repository_id=RepositoryId(""),
        base_commit=CommitId(""),
        commit=CommitId(""),
        source_tree="",
        full_tree="",
    )
    spec = SandboxSpec(
        task_id="bare",
        attempt=1,
        image=image,
        start=start,
        limits=given.limits,
        network=given.network,
        environment=given.env_set,
    )
    place = ContainerPlace(
        instance_id="bench-bare",
        uid=1000,
        gid=1000,
        files=str(folder),
        base_repository=str(folder / "base.git"),
        cpus=os.cpu_count() or 1,
        has_ipv6=Path("/proc/sys/net/ipv6").is_dir(),
    )
    return dict(make_create_body(spec, place))


def show(name: str, **facts: object) -> None:
    """Print one line of facts, for people and for scripts."""
    print(name, json.dumps(facts, default=str), flush=True)
