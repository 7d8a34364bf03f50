"""What a task and a batch have come to; `to_json` gives the forms that scripts read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from policies import ChangeKind, Changes, FlaggedPath, Json
from runner.domain.instant import show_instant
from runner.domain.outcome import Outcome, RunState
from runner.domain.records import Batch, Run, SetupResult, Task, VerifyResult
from sandbox import Snapshot

SCHEMA = 1
"""Version of the objects that scripts read."""

INFRASTRUCTURE = frozenset({Outcome.INFRASTRUCTURE_ERROR, Outcome.SANDBOX_LOST})
"""Outcomes that say nothing about the agent; never counted as its failures."""

NEEDS_A_PERSON = frozenset({RunState.NEEDS_ATTENTION, RunState.AWAITING_APPROVAL})


@dataclass(frozen=True, slots=True, kw_only=True)
class Clocks:
    """The four clocks of a task, over all its runs."""

    waiting_milliseconds: int
    """From creation to start, of each run."""
    running_milliseconds: int
    """What budgets count: the agent at work."""
    verifying_milliseconds: int
    setting_up_milliseconds: int = 0
    """In the container of its setup, or waiting for another task that runs the same one."""

    def to_json(self) -> Json:
        """Return the form that is shown to scripts."""
        return {
            "waiting_milliseconds": self.waiting_milliseconds,
            "running_milliseconds": self.running_milliseconds,
            "verifying_milliseconds": self.verifying_milliseconds,
            "setting_up_milliseconds": self.setting_up_milliseconds,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFiles:
    """How a task's files stand against its starting snapshot."""

    snapshot: Snapshot
    changes: Changes
    flagged: tuple[FlaggedPath, ...] = ()
    """Paths of the patch that the user's own tools would execute or obey."""

    def count(self, kind: ChangeKind) -> int:
        """Count the changes of a kind that are part of the patch."""
        return sum(1 for one in self.changes.items if one.kind is kind and not one.ignored)

    def counts_to_json(self) -> dict[str, Json]:
        """Return added, modified (also in mode alone) and deleted paths of the patch."""
        return {
            "added": self.count(ChangeKind.ADDED),
            "modified": self.count(ChangeKind.MODIFIED) + self.count(ChangeKind.MODE),
            "deleted": self.count(ChangeKind.DELETED),
            "ignored": sum(1 for one in self.changes.items if one.ignored),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskReport:
    """One task with its runs, as it stands."""

    task: Task
    runs: tuple[Run, ...]
    """Oldest first, at least one."""
    clocks: Clocks
    base_snapshot_id: str = ""
    """Empty until the task was prepared."""
    snapshot_id: str = ""
    """The last one; empty until the task was prepared."""
    files: TaskFiles | None = None
    """None = not asked for, or the task was not prepared yet."""

    @property
    def run(self) -> Run:
        """The last run: the task's state is its state."""
        return self.runs[-1]

    @property
    def setup(self) -> SetupResult | None:
        """What the task's setup came to last; None when none was run, or not yet."""
        found = [run.setup for run in self.runs if run.setup is not None]
        return found[-1] if found else None

    @property
    def state(self) -> RunState:
        """Where the task is."""
        return self.run.state

    @property
    def outcome(self) -> Outcome | None:
        """What the task came to; None until its last run has ended."""
        return self.run.outcome

    @property
    def expected(self) -> bool | None:
        """Tell whether it ended as the batch file expects; None until it has ended."""
        return None if self.outcome is None else self.outcome in self.task.spec.expect

    def to_json(self) -> dict[str, Json]:
        """Return the object of `task show`; coverage and changes only where files are known."""
        files: dict[str, Json] = {}
        if self.files is not None:
            files = {
                "base_commit": self.files.snapshot.base_commit,
                "source_tree": self.files.snapshot.source_tree,
                "coverage": self.files.snapshot.coverage.to_json(),
                "changes": self.files.counts_to_json(),
                "flagged": [one.to_json() for one in self.files.flagged],
            }
        return {"schema": SCHEMA, **self._identity(), **files, **self._progress()}

    def _identity(self) -> dict[str, Json]:
        return {
            "task_id": self.task.task_id,
            "name": self.task.spec.name,
            "session_id": self.task.session_id,
            "batch_id": self.task.batch_id,
            "goal": self.task.spec.goal,
            "state": self.state.value,
            "outcome": None if self.outcome is None else self.outcome.value,
            "reason": self.run.reason,
            "expect": [one.value for one in self.task.spec.expect],
            "expected": self.expected,
            "parent_task_id": self.task.parent_task_id,
            "fork_message_id": self.task.fork_message_id or None,
            "base_snapshot_id": self.base_snapshot_id or None,
            "snapshot_id": self.snapshot_id or None,
        }

    def _progress(self) -> dict[str, Json]:
        run = self.run
        return {
            "budget": {
                "limit": self.task.spec.budget.to_budget().to_json(),
                "used": run.usage.to_json(),
            },
            "setup": _setup_to_json(self.setup),
            "verify": {
                "before": _verify_to_json(run.verify_before),
                "after": _verify_to_json(run.verify_after),
            },
            "clocks": self.clocks.to_json(),
            "runs": len(self.runs),
            "attempt": run.attempt,
            "rollout": {"items": run.items, "head": run.head},
            "created_at": show_instant(self.task.created_at),
            "started_at": _instant(run.started_at),
            "ended_at": _instant(run.ended_at),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchReport:
    """A batch with its tasks, as it stands."""

    batch: Batch
    tasks: tuple[TaskReport, ...]
    """In the order of the batch file."""

    @property
    def ended(self) -> bool:
        """Tell whether every task's last run is terminal."""
        return all(task.state.terminal for task in self.tasks)

    @property
    def as_wanted(self) -> bool:
        """Tell whether every task ended as the batch file expects."""
        return all(task.expected for task in self.tasks)

    @property
    def waiting_for_person(self) -> tuple[TaskReport, ...]:
        """The tasks that only a person can move on."""
        return tuple(task for task in self.tasks if task.state in NEEDS_A_PERSON)

    def counts_to_json(self) -> Json:
        """Return how many tasks there are by state and by outcome."""
        states = Counter(task.state.value for task in self.tasks)
        outcomes = Counter(task.outcome.value for task in self.tasks if task.outcome is not None)
        return {
            "state": dict(sorted(states.items())),
            "outcome": dict(sorted(outcomes.items())),
        }

    def to_json(self) -> dict[str, Json]:
        """Return the object of `batch run` and `batch report`."""
        outcomes: dict[str, Json] = {
            task.task.spec.name: None if task.outcome is None else task.outcome.value
            for task in self.tasks
        }
        return {
            **self._identity(),
            "results_dir": self.batch.results_dir,
            "outcomes": outcomes,
            "as_wanted": self.as_wanted if self.ended else None,
            "task_ids": {task.task.spec.name: task.task.task_id for task in self.tasks},
        }

    def to_status_json(self) -> dict[str, Json]:
        """Return the object of `batch submit` and `batch status`."""
        return {
            **self._identity(),
            "tasks": [
                {
                    "task_id": task.task.task_id,
                    "name": task.task.spec.name,
                    "state": task.state.value,
                    "outcome": None if task.outcome is None else task.outcome.value,
                }
                for task in self.tasks
            ],
        }

    def _identity(self) -> dict[str, Json]:
        return {
            "schema": SCHEMA,
            "batch_id": self.batch.batch_id,
            "name": self.batch.spec.name,
            "counts": self.counts_to_json(),
            "cancelled": self.batch.cancelled_at is not None,
            "created_at": show_instant(self.batch.created_at),
        }


def measure_clocks(runs: Sequence[Run], *, now: datetime) -> Clocks:
    """Add up the clocks of a task's runs; a run that has not started yet waits until now."""
    waiting = sum(_waited(run, now) for run in runs)
    return Clocks(
        waiting_milliseconds=waiting,
        running_milliseconds=sum(run.usage.wall_milliseconds for run in runs),
        verifying_milliseconds=sum(run.verify_milliseconds for run in runs),
        setting_up_milliseconds=sum(run.setup.milliseconds for run in runs if run.setup),
    )


def _waited(run: Run, now: datetime) -> int:
    until = run.started_at or run.ended_at or now
    return max(0, int((until - run.created_at).total_seconds() * 1000))


def _setup_to_json(result: SetupResult | None) -> Json:
    if result is None:
        return None
    return {
        "passed": result.passed,
        "exit_code": result.exit_code,
        "reused": result.reused,
        "detail": result.detail,
    }


def _verify_to_json(result: VerifyResult | None) -> Json:
    if result is None:
        return None
    return {
        "passed": result.passed,
        "exit_code": result.exit_code,
        "runs": result.runs,
        "flaky": result.flaky,
        "detail": result.detail,
    }


def _instant(instant: datetime | None) -> str | None:
    return None if instant is None else show_instant(instant)
