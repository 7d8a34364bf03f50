"""What the store keeps about batches, tasks, runs and executions: one frozen value per row."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from runner.domain.budget import Usage
from runner.domain.ids import BatchId, CallId, EvidenceId, RunId, SessionId, SetupKey, TaskId
from runner.domain.outcome import Outcome, RunState
from runner.domain.task import BatchSpec, TaskSpec
from sandbox import SnapshotId


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A dispatched batch."""

    batch_id: BatchId
    spec: BatchSpec
    results_dir: str
    created_at: datetime
    cancelled_at: datetime | None = None
    """None = not cancelled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """The user's unit. Its state is that of its last run."""

    task_id: TaskId
    batch_id: BatchId
    session_id: SessionId
    position: int
    """Place in the batch file, from 0."""
    spec: TaskSpec
    created_at: datetime
    cancelled_at: datetime | None = None
    """None = not cancelled. Checked before a start and at each step."""
    parent_task_id: TaskId | None = None
    """None = not a fork."""
    fork_message_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyResult:
    """What a verification came to."""

    passed: bool
    exit_code: int | None
    """None when the command did not end by itself."""
    runs: int
    flaky: bool
    """Some runs passed and some did not."""
    detail: str = ""
    """Why it did not pass when no exit code says so."""
    log: EvidenceId | None = None
    """None = no output was kept."""
    seconds_milli: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SetupResult:
    """What the setup of a run's task came to."""

    passed: bool
    exit_code: int | None
    """None when the command did not end by itself."""
    detail: str = ""
    """Why it did not pass; empty when it did."""
    log: EvidenceId
    milliseconds: int = 0
    """What the run spent on it: in its own container, or waiting for another's."""
    reused: bool = False
    """Another run made it, now or earlier."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptSetup:
    """What a setup left, for every task that would run the same one."""

    setup_key: SetupKey
    snapshot_id: SnapshotId
    log: EvidenceId
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One attempt to move a session on."""

    run_id: RunId
    task_id: TaskId
    batch_id: BatchId
    session_id: SessionId
    number: int
    """1 for the task's first run."""
    state: RunState
    reason: str = ""
    """Why it is in this state, for a person."""
    outcome: Outcome | None = None
    """None until the run has ended."""
    attempt: int = 0
    """How often it was started; counted when a lease is taken."""
    created_at: datetime
    started_at: datetime | None = None
    ended_at: datetime | None = None
    usage: Usage = field(default_factory=Usage)
    verify_before: VerifyResult | None = None
    verify_after: VerifyResult | None = None
    verify_milliseconds: int = 0
    """Clock of the verifications, apart from usage.wall_milliseconds."""
    items: int = 0
    """Length of the session's rollout when the run ended: the anchor."""
    head: str = ""
    """Hash of the rollout's last item then."""
    setup: SetupResult | None = None
    """None = the task names none, or this run had it from an earlier one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """The right to write on behalf of a run."""

    run_id: RunId
    token: int
    """Fencing token: grows with every claim; writes with an older one are refused."""
    holder: str
    """`host:boot id:pid:start time` of the process."""
    expires_at: datetime


class ExecutionState(StrEnum):
    """Where one tool call is."""

    REQUESTED = "requested"
    DECIDING = "deciding"
    AWAITING_APPROVAL = "awaiting_approval"
    STARTED = "started"
    HELD = "held"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    DENIED = "denied"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """The ledger row of one tool call."""

    session_id: SessionId
    run_id: RunId
    call_id: CallId
    tool: str
    arguments_digest: str
    action_digest: str = ""
    """Empty until the action is known."""
    state: ExecutionState
    attempt: int = 0
    """How often it was started: 1, and once more after each crash or suspension."""
    base_snapshot_id: SnapshotId | None = None
    """The files it started from; None until started."""
    result_snapshot_id: SnapshotId | None = None
    """None = wrote nothing, or was rolled back."""
