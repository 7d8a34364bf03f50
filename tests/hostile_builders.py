"""A whole batch of hostile tasks on the real engine, with what it left everywhere afterwards."""

from __future__ import annotations

import hashlib
import io
import json
import os
import subprocess
import tarfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import structlog
from engine_recorder import EngineRecorder, record_engine
from git_builders import ExampleRepository
from run_builders import FINISH

from policies import load_policy
from runner.application.dispatch import Dispatcher, DispatchOptions
from runner.application.submit_batch import submit_batch
from runner.application.write_results import write_batch_results, write_task_results
from runner.bootstrap import App, open_app, read_instance_id
from runner.domain.items import (
    AssistantMessage,
    ExecutionItem,
    RolloutItem,
    SnapshotItem,
    ToolResult,
    ToolStatus,
)
from runner.domain.outcome import Outcome
from runner.domain.records import Run, Task
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
from sandbox import Snapshot, SnapshotId
from sandbox.docker.engine import open_engine

CANARY = "open-sesame-7f3a"
"""A secret of the runner's; written nowhere else."""

HOST_SECRET = "hunter2-91c4"
"""Bytes of a file of the host's that tasks make links to."""

SIBLING = "sibling"
SIGNALS = "/signals"
"""Where tasks are told that the sibling listens (`go`) and that the others are over (`done`)."""

LIMITS = {
    "memory_mib": 192,
    "cpu_thousandths": 1000,
    "pids": 96,
    "disk_mib": 96,
    "inodes": 4000,
    "open_files": 512,
    "call_seconds": 30,
    "shown_kib": 16,
    "evidence_mib": 1,
}


@dataclass(frozen=True)
class Called:
    """One call of a task, as the rollout has it."""

    result: ToolResult
    execution: ExecutionItem | None
    """Its last step in the ledger; None = it was never started."""

    @property
    def text(self) -> str:
        return self.result.text

    @property
    def reason(self) -> str:
        return self.result.reason

    @property
    def json(self) -> Any:
        """What the command printed, where that is one JSON value."""
        return json.loads(self.text.split("stdout:\n")[-1])


@dataclass(frozen=True)
class EndedTask:
    """A task after its batch: its row, and its calls by the labels that they were given."""

    task: Task
    runs: Sequence[Run]
    items: Sequence[RolloutItem]
    calls: Mapping[str, Called]

    @property
    def run(self) -> Run:
        return self.runs[-1]


@dataclass(frozen=True)
class HostState:
    """What of the host must not move."""

    files: Mapping[str, str]
    """Path to digest and metadata: the user's repository, a secret, system files."""
    leftovers: tuple[str, ...]
    """Mounts, loop devices, processes and containers of this home."""
    free_bytes: int = field(compare=False)
    free_inodes: int = field(compare=False)


@dataclass
class HostileYard:
    """A home, a repository, a socket in front of the engine, and what a batch came to."""

    folder: Path
    app: App
    engine: EngineRecorder
    ended: dict[str, EndedTask] = field(default_factory=dict)
    before: HostState | None = None
    after: HostState | None = None

    @property
    def repository(self) -> Path:
        return self.folder / "code"

    @property
    def marker(self) -> Path:
        """What hostile code would make if it ran on the host."""
        return Path("/tmp") / f"forkyard-{self.folder.name}"

    def call(self, task: str, label: str) -> Called:
        return self.ended[task].calls[label]

    def snapshot_after(self, task: str, label: str) -> Snapshot:
        """Return the files as a call left them."""
        call_id = self.call(task, label).result.call_id
        return self._snapshot([one for one in self._kept(task) if one.call_id == call_id])

    def last_snapshot(self, task: str) -> Snapshot:
        """Return the files that a task ended with."""
        return self._snapshot(self._kept(task))

    def _kept(self, task: str) -> list[SnapshotItem]:
        payloads = [one.payload for one in self.ended[task].items]
        return [one for one in payloads if isinstance(one, SnapshotItem)]

    def _snapshot(self, kept: list[SnapshotItem]) -> Snapshot:
        with self.app.services.store.read() as view:
            return view.get_snapshot(SnapshotId(kept[-1].snapshot_id))

    def snapshots(self, task: str) -> Path:
        """Return the repository that holds a task's snapshots."""
        repository = self.last_snapshot(task).repository_id
        return self.app.settings.home / "repos" / repository / "snapshots.git"

    def run(self, tasks: Mapping[str, TaskSpec], labels: Mapping[str, Sequence[str]]) -> None:
        """Run a batch to its end; keep what it left."""
        services, home = self.app.services, self.app.settings.home
        self.before = self.look_at_host()
        spec = BatchSpec(
            name="hostile",
            file=str(self.folder / "batch.yaml"),
            budget=BatchBudget(tasks_parallel=4),
            tasks=tuple(tasks.values()),
        )
        batch = submit_batch(spec, services, results=home / "results")
        open_tasks = set(tasks) - {SIBLING}

        def on_activity(task: Task, words: str) -> None:
            if task.spec.name == SIBLING and words.startswith("shell"):
                (self.folder / "signals/go").touch()

        def on_ended(task: Task) -> None:
            open_tasks.discard(task.spec.name)
            if not open_tasks:
                (self.folder / "signals/done").touch()
            write_task_results(task.task_id, services, self.app.results)

        dispatcher = Dispatcher(
            services,
            self.app.capacity,
            options=DispatchOptions(batch_id=batch.batch_id, parallel=4),
            on_activity=on_activity,
            on_ended=on_ended,
        )
        dispatcher.run(threading.Event())
        write_batch_results(batch.batch_id, services, self.app.results)
        self.after = self.look_at_host()
        self.ended = {
            one.spec.name: self._read(one, labels[one.spec.name])
            for one in self._list_tasks(batch.batch_id)
        }

    def _list_tasks(self, batch_id: Any) -> Sequence[Task]:
        with self.app.services.store.read() as view:
            return view.list_tasks(batch_id)

    def _read(self, task: Task, labels: Sequence[str]) -> EndedTask:
        with self.app.services.store.read() as view:
            runs, items = view.list_runs(task.task_id), view.list_items(task.session_id)
        payloads = [one.payload for one in items]
        asked = [
            call.call_id
            for one in payloads
            if isinstance(one, AssistantMessage)
            for call in one.calls
        ]
        results = {one.call_id: one for one in payloads if isinstance(one, ToolResult)}
        executions = {one.call_id: one for one in payloads if isinstance(one, ExecutionItem)}
        calls = {
            label: Called(results[call_id], executions.get(call_id))
            for label, call_id in zip(labels, asked, strict=False)
            if call_id in results
        }
        return EndedTask(task, runs, items, calls)

    def look_at_host(self) -> HostState:
        """Note what must be the same before and after."""
        paths = [*self.repository.rglob("*"), self.repository, *self.folder.glob("secret/*")]
        paths += [Path(one) for one in ("/etc/passwd", "/etc/shadow", "/bin/sh", "/usr/bin/git")]
        paths += [Path("/proc/sys/kernel/core_pattern"), self.marker]
        files = {str(one): describe_path(one) for one in paths}
        room = os.statvfs(self.folder)
        return HostState(
            files=files,
            leftovers=tuple(self._list_leftovers()),
            free_bytes=room.f_bavail * room.f_frsize,
            free_inodes=room.f_favail,
        )

    def _list_leftovers(self) -> Iterator[str]:
        home = str(self.app.settings.home)
        for line in Path("/proc/self/mountinfo").read_text().splitlines():
            if home in line:
                yield f"mount {line}"
        for device in Path("/sys/block").glob("loop*/loop/backing_file"):
            if home in device.read_text():
                yield f"loop device {device}"
        for work in (Path(home) / "work").glob("[!.]*"):
            yield f"volume {work}"
        label = {"forkyard.instance": read_instance_id(Path(home))}
        with open_engine() as engine:
            for one in engine.find_labelled(label):
                yield f"container {one.container_id}"
        yield from find_processes(self._container_ids())

    def _container_ids(self) -> set[str]:
        found = (one.split("/containers/")[-1] for one in self.engine.requests)
        return {one.split("/")[0] for one in found if len(one.split("/")[0]) == 64}


def find_processes(containers: set[str]) -> Iterator[str]:
    """List the host's processes and control groups that belong to containers."""
    for group in Path("/proc").glob("[0-9]*/cgroup"):
        try:
            text = group.read_text()
        except OSError:  # it ended meanwhile
            continue
        if any(one in text for one in containers):
            yield f"process {group}"
    for one in containers:
        for folder in Path("/sys/fs/cgroup").glob(f"*/docker/{one}"):
            yield f"control group {folder}"


def describe_path(path: Path) -> str:
    """Return kind, mode, owner, inode and a digest of one path; empty where nothing is."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return ""
    digest = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
    return f"{found.st_mode:o} {found.st_uid} {found.st_ino} {found.st_nlink} {digest}"


@contextmanager
def open_hostile_yard(folder: Path, files: Mapping[str, bytes]) -> Iterator[HostileYard]:
    """Make a repository and open an application that talks to the engine past a recorder."""
    for name in ("signals", "secret"):
        (folder / name).mkdir()
    (folder / "secret/passwd").write_text(HOST_SECRET)
    ExampleRepository(folder / "code").commit(files)
    watched = (CANARY.encode(), HOST_SECRET.encode())
    with ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        stack.enter_context(log_to(folder / "log"))
        patch.setenv("FORKYARD_TEST_CANARY", CANARY)
        engine = stack.enter_context(record_engine(folder / "engine.sock", watched=watched))
        environment = {
            **os.environ,
            "FORKYARD_HOME": str(folder / "home"),
            "DOCKER_HOST": f"unix://{folder}/engine.sock",
        }
        app = stack.enter_context(open_app(load_settings(environment)))
        yield HostileYard(folder, app, engine)


@contextmanager
def log_to(path: Path) -> Iterator[None]:
    """Send the program's log to a file."""
    with path.open("w") as file:
        structlog.configure(logger_factory=structlog.PrintLoggerFactory(file=file))
        try:
            yield
        finally:
            structlog.reset_defaults()


def make_task(yard: HostileYard, name: str, calls: Sequence[Any], **changes: Any) -> TaskSpec:
    """Return a task whose agent makes the calls, one a turn, and says that it is done."""
    replies = [{"calls": [one]} for one in [*calls, FINISH]]
    values: dict[str, Any] = {
        "name": name,
        "goal": "Write the answer.",
        "repo": RepositorySpec(kind="path", location=str(yard.repository)),
        "image": "python",
        "policy": json.dumps(make_policy(yard)),
        "agent": AgentSpec(kind=AgentKind.SCRIPTED, script=json.dumps({"replies": replies})),
        "budget": BudgetSpec(tool_seconds=0, output_mib=0, tokens=0),
        "verify": VerifySpec(argv=("sh", "check.sh"), restore=("check.sh",), timeout_seconds=60),
    }
    return TaskSpec(**{**values, **changes})


def make_hostile_archive(yard: HostileYard) -> Path:
    """Write a source archive whose members aim at the host."""
    path = yard.folder / "evil.tar"
    link = tarfile.TarInfo("way")
    link.type, link.linkname = tarfile.SYMTYPE, "/tmp"
    names = ("README", f"../../../../..{yard.marker}", str(yard.marker), f"way/{yard.marker.name}")
    with tarfile.open(path, "w") as archive:
        archive.addfile(link)
        for name in names:
            archive.addfile(tarfile.TarInfo(name), io.BytesIO())
    return path


def make_policy(yard: HostileYard) -> Any:
    """Return the built-in policy with small limits and the folder of signals, read-only."""
    name = "repair" if os.geteuid() == 0 else "repair-watched"
    policy: Any = json.loads(json.dumps(load_policy(name, folder=None).source))
    policy["sandbox"]["limits"] = LIMITS
    mount = {"source": str(yard.folder / "signals"), "target": SIGNALS, "mode": "ro"}
    policy["sandbox"]["mounts"] = [mount]
    return policy


def assert_others_are_whole(yard: HostileYard) -> None:
    """Check the host and the sibling: whatever a task did, they have not noticed."""
    assert yard.before is not None
    assert yard.after is not None
    assert yard.after == yard.before
    # others work on this disk as well: what a task of ours could have taken is more than this
    assert yard.before.free_bytes - yard.after.free_bytes < 1 << 30
    assert yard.before.free_inodes - yard.after.free_inodes < 100_000
    sibling = yard.ended[SIBLING]
    assert (sibling.run.outcome, sibling.run.attempt) == (Outcome.VERIFIED, 1)
    for label, called in sibling.calls.items():
        assert called.result.status is ToolStatus.SUCCEEDED, (label, called.text)
        assert called.execution.wall_milliseconds < 15_000, label


def read_all_objects(repository: Path) -> bytes:
    """Return every object of a repository, unpacked."""
    return subprocess.run(
        ["git", "cat-file", "--batch-all-objects", "--batch"],
        cwd=repository,
        capture_output=True,
        check=True,
    ).stdout


__all__ = [
    "CANARY",
    "HOST_SECRET",
    "SIBLING",
    "HostileYard",
    "assert_others_are_whole",
    "make_hostile_archive",
    "make_task",
    "open_hostile_yard",
    "read_all_objects",
]
