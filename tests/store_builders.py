"""Values for tests of the store: a test names only what it is about."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from policies import digest_bytes
from runner.application.ports.store import Store
from runner.domain.ids import (
    BatchId,
    CallId,
    EvidenceId,
    MessageId,
    RunId,
    SessionId,
    SetupKey,
    TaskId,
)
from runner.domain.items import NewItem, UserMessage
from runner.domain.outcome import RunState
from runner.domain.records import Batch, Execution, ExecutionState, KeptSetup, Lease, Run, Task
from runner.domain.task import (
    AgentKind,
    AgentSpec,
    BatchSpec,
    RepositorySpec,
    TaskSpec,
    VerifySpec,
)
from sandbox import CommitId, RepositoryId, Snapshot, SnapshotId

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
LATER = NOON + timedelta(hours=1)
BATCH = BatchId("b1")
TASK = TaskId("t1")
SESSION = SessionId("s1")
RUN = RunId("r1")
CALL = CallId("c1")
LOG = EvidenceId(digest_bytes(b"log"))


def make_task_spec(**changes: Any) -> TaskSpec:
    values = {
        "name": "repair",
        "goal": "Make it pass.",
        "repo": RepositorySpec(kind="path", location="/src"),
        "image": "python",
        "policy": "{}",
        "agent": AgentSpec(kind=AgentKind.SCRIPTED),
        "verify": VerifySpec(argv=("pytest",), env={"A": "b"}, restore=("tests/**",)),
    }
    return TaskSpec(**{**values, **changes})


def make_batch(**changes: Any) -> Batch:
    values = {
        "batch_id": BATCH,
        "spec": BatchSpec(name="repairs", file="/b.yaml", tasks=(make_task_spec(),)),
        "results_dir": "/results",
        "created_at": NOON,
    }
    return Batch(**{**values, **changes})


def make_task(**changes: Any) -> Task:
    values = {
        "task_id": TASK,
        "batch_id": BATCH,
        "session_id": SESSION,
        "position": 0,
        "spec": make_task_spec(),
        "created_at": NOON,
    }
    return Task(**{**values, **changes})


def make_run(**changes: Any) -> Run:
    values = {
        "run_id": RUN,
        "task_id": TASK,
        "batch_id": BATCH,
        "session_id": SESSION,
        "number": 1,
        "state": RunState.QUEUED,
        "created_at": NOON,
    }
    return Run(**{**values, **changes})


def make_execution(**changes: Any) -> Execution:
    values = {
        "session_id": SESSION,
        "run_id": RUN,
        "call_id": CALL,
        "tool": "shell",
        "arguments_digest": "sha256:aa",
        "state": ExecutionState.REQUESTED,
    }
    return Execution(**{**values, **changes})


def make_snapshot(**changes: Any) -> Snapshot:
    values = {
        "snapshot_id": SnapshotId("sha256:1"),
        "content_id": "sha256:2",
        "repository_id": RepositoryId("ab"),
        "base_commit": CommitId("0" * 40),
        "commit": CommitId("1" * 40),
        "source_tree": "2" * 40,
        "full_tree": "3" * 40,
    }
    return Snapshot(**{**values, **changes})


def make_setup(log: EvidenceId = LOG, **changes: Any) -> KeptSetup:
    values = {
        "setup_key": SetupKey("sha256:key"),
        "snapshot_id": SnapshotId("sha256:1"),
        "log": log,
        "created_at": NOON,
    }
    return KeptSetup(**{**values, **changes})


def said(text: str = "hello", *, message_id: str | None = None) -> NewItem:
    name = None if message_id is None else MessageId(message_id)
    return NewItem(payload=UserMessage(text=text), message_id=name)


def add_task_with_run(store: Store, number: int = 1, **run_changes: Any) -> None:
    """Store task t<number> with run r<number> in batch b1, which is made when missing."""
    with store.write() as writer:
        if not writer.find_ids("batch", BATCH):
            writer.add_batch(make_batch())
        names = {"task_id": TaskId(f"t{number}"), "session_id": SessionId(f"s{number}")}
        writer.add_task(make_task(position=number, **names))
        writer.add_run(make_run(run_id=RunId(f"r{number}"), **names, **run_changes))


def claim(store: Store, run_id: RunId = RUN, *, holder: str = "us", at: datetime = NOON):
    """Try to take the lease of a run for a minute."""
    return store.claim_run(run_id, holder=holder, now=at, seconds=60)


def hold(store: Store, **options: Any) -> Lease:
    """Take the lease of a run for a minute."""
    lease = claim(store, **options)
    assert lease is not None
    return lease
