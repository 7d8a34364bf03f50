"""What commands return. render.py shows them; `to_json` is the form that scripts read."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Protocol

from policies import Decision, FlaggedPath, Json, Policy, show_path
from runner.application.apply_task import MadeBranch, WrittenCheckout
from runner.application.report import SCHEMA, BatchReport, TaskReport
from runner.application.verify_rollout import RolloutProof
from runner.domain.items import RolloutItem
from runner.domain.task import SetupSpec
from runner.entrypoints.exit_codes import ExitCode


class Answer(Protocol):
    """A command's answer."""

    @property
    def exit_code(self) -> int:
        """What the shell is told."""
        ...

    def to_json(self) -> dict[str, Json]:
        """Return the object that scripts get."""
        ...


class Good:
    """An answer that is as wanted."""

    @property
    def exit_code(self) -> int:
        """Always 0."""
        return ExitCode.AS_WANTED


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchEnded:
    """A batch after this process has worked on it, or as it is reported."""

    report: BatchReport
    interrupted: bool = False
    problems: tuple[str, ...] = ()
    """What kept results from being written."""
    watched: bool = False
    """It was only looked at: an interruption suspended nothing."""
    unattended: bool = False
    """Tasks are left, and no live process holds any of them."""

    @property
    def exit_code(self) -> int:
        """0 only when every task ended as expected and its results are there."""
        if self.interrupted:
            return ExitCode.INTERRUPTED
        good = self.report.ended and self.report.as_wanted and not self.problems
        return ExitCode.AS_WANTED if good else ExitCode.NOT_AS_WANTED

    def to_json(self) -> dict[str, Json]:
        """Return the object of `batch run` and `batch report`."""
        return {**self.report.to_json(), "problems": list(self.problems)}


@dataclass(frozen=True, slots=True)
class BatchStanding(Good):
    """A batch as it stands."""

    report: BatchReport
    shortage: str = ""
    """What keeps its queued tasks from starting on this host; empty when nothing does."""
    unattended: bool = False
    """Tasks are left, and no live process holds any of them."""

    def to_json(self) -> dict[str, Json]:
        """Return the object of `batch status` and `batch submit`."""
        return {
            **self.report.to_status_json(),
            "waiting_because": self.shortage or None,
            "unattended": self.unattended,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedTask:
    """One task as it would start."""

    name: str
    image_id: str
    """Empty when the image has to be built first."""
    commit: str
    notes: tuple[str, ...] = ()
    """What is not included, submodules, pointers."""
    memory_mib: int
    cpu_thousandths: int
    setup: SetupSpec | None
    """None = it starts from the untouched files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchChecked:
    """A batch file that could be started, or what stands in its way."""

    name: str
    tasks: tuple[CheckedTask, ...]
    problems: tuple[str, ...]
    worst_cost_micro_usd: int | None
    """None = there is no limit."""

    @property
    def exit_code(self) -> int:
        """3 when something is missing here."""
        return ExitCode.MISSING if self.problems else ExitCode.AS_WANTED

    def to_json(self) -> dict[str, Json]:
        """Return the object of `batch check`."""
        return {
            "schema": SCHEMA,
            "name": self.name,
            "worst_cost_micro_usd": self.worst_cost_micro_usd,
            "problems": list(self.problems),
            "tasks": [
                {
                    "name": one.name,
                    "image_id": one.image_id or None,
                    "commit": one.commit,
                    "notes": list(one.notes),
                    "memory_mib": one.memory_mib,
                    "cpu_thousandths": one.cpu_thousandths,
                    "setup": None if one.setup is None else one.setup.model_dump(mode="json"),
                }
                for one in self.tasks
            ],
        }


@dataclass(frozen=True, slots=True)
class Cancelled(Good):
    """A batch or task that was told to end."""

    kind: str
    name: str
    open_tasks: int
    """How many tasks had not ended before."""

    def to_json(self) -> dict[str, Json]:
        """Return the object of `batch cancel` and `task cancel`."""
        return {"schema": SCHEMA, f"{self.kind}_id": self.name, "cancelled_tasks": self.open_tasks}


@dataclass(frozen=True, slots=True)
class TaskShown(Good):
    """One task."""

    report: TaskReport

    def to_json(self) -> dict[str, Json]:
        """Return the object of `task show`."""
        return self.report.to_json()


@dataclass(frozen=True, slots=True)
class TaskEnded:
    """A single task after this process has worked on it."""

    report: TaskReport
    batch: BatchEnded

    @property
    def exit_code(self) -> int:
        """As for its batch."""
        return self.batch.exit_code

    def to_json(self) -> dict[str, Json]:
        """Return the object of `task show` with where the results are."""
        return {**self.report.to_json(), "results_dir": self.batch.report.batch.results_dir}


@dataclass(frozen=True, slots=True)
class TaskListing(Good):
    """Several tasks."""

    reports: tuple[TaskReport, ...]

    def to_json(self) -> dict[str, Json]:
        """Return the object of `task list`."""
        return {"schema": SCHEMA, "tasks": [one.to_json() for one in self.reports]}


@dataclass(frozen=True, slots=True)
class TaskLog(Good):
    """The items of a session."""

    task_id: str
    items: tuple[RolloutItem, ...]

    def to_json(self) -> dict[str, Json]:
        """Return the object of `task log`."""
        items: list[Json] = [
            {
                "seq": item.seq,
                "kind": item.kind.value,
                "message_id": item.message_id,
                "item": json.loads(item.to_line()),
            }
            for item in self.items
        ]
        return {"schema": SCHEMA, "task_id": self.task_id, "items": items}


@dataclass(frozen=True, slots=True)
class Patch(Good):
    """A task's changes as a patch."""

    task_id: str
    patch: bytes
    flagged: tuple[FlaggedPath, ...] = ()

    def to_json(self) -> dict[str, Json]:
        """Return the object of `task diff`; bytes that are not UTF-8 are escaped in it."""
        text = self.patch.decode("utf-8", "backslashreplace")
        flagged: list[Json] = [one.to_json() for one in self.flagged]
        return {
            "schema": SCHEMA,
            "task_id": self.task_id,
            "patch": text,
            "flagged": flagged,
        }


@dataclass(frozen=True, slots=True)
class Branched(Good):
    """A branch that was made in the user's repository."""

    task_id: str
    branch: str
    made: MadeBranch

    def to_json(self) -> dict[str, Json]:
        """Return the object of `task apply --branch`."""
        return {
            "schema": SCHEMA,
            "task_id": self.task_id,
            "branch": self.branch,
            "commit": self.made.commit,
            "flagged": [one.to_json() for one in self.made.flagged],
        }


@dataclass(frozen=True, slots=True)
class CheckedOut(Good):
    """Changes that were written into the user's checkout."""

    task_id: str
    written: WrittenCheckout

    def to_json(self) -> dict[str, Json]:
        """Return the object of `task apply --checkout`."""
        return {
            "schema": SCHEMA,
            "task_id": self.task_id,
            "checkout": self.written.location,
            "paths": [show_path(path) for path in self.written.paths],
            "flagged": [one.to_json() for one in self.written.flagged],
        }


@dataclass(frozen=True, slots=True)
class PolicyChecked(Good):
    """A policy that loads."""

    policy: Policy

    def to_json(self) -> dict[str, Json]:
        """Return the object of `policy check`."""
        return {
            "schema": SCHEMA,
            "name": self.policy.name,
            "digest": self.policy.digest,
            "policy": self.policy.source,
        }


@dataclass(frozen=True, slots=True)
class Explained(Good):
    """What a policy decides."""

    decision: Decision

    def to_json(self) -> dict[str, Json]:
        """Return the object of `policy explain`."""
        return {
            "schema": SCHEMA,
            "decision": self.decision.verdict.value,
            "rule": self.decision.rule,
            "reasons": list(self.decision.reasons),
            "also_matched": list(self.decision.also_matched),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageRow:
    """One image."""

    name: str
    tag: str
    image_id: str
    """Empty when the engine does not have it."""


@dataclass(frozen=True, slots=True)
class ImageListing(Good):
    """The agents' images."""

    images: tuple[ImageRow, ...]

    def to_json(self) -> dict[str, Json]:
        """Return the object of `images list` and `images build`."""
        images: list[Json] = [
            {"name": one.name, "tag": one.tag, "image_id": one.image_id or None}
            for one in self.images
        ]
        return {"schema": SCHEMA, "images": images}


@dataclass(frozen=True, slots=True)
class Proof:
    """What the check of a rollout found."""

    task_id: str
    proof: RolloutProof

    @property
    def exit_code(self) -> int:
        """1 when something is wrong."""
        return ExitCode.AS_WANTED if self.proof.ok else ExitCode.NOT_AS_WANTED

    def to_json(self) -> dict[str, Json]:
        """Return the object of `rollout verify`."""
        problems: list[Json] = [
            {"seq": one.seq, "offset": one.offset, "problem": one.problem}
            for one in self.proof.problems
        ]
        return {
            "schema": SCHEMA,
            "ok": self.proof.ok,
            "items": self.proof.items,
            "anchored": self.proof.anchored,
            "requests_sent": self.proof.requests_sent,
            "requests_rebuilt": self.proof.requests_rebuilt,
            "problems": problems,
        }


@dataclass(frozen=True, slots=True)
class Exported(Good):
    """A rollout's JSONL, on standard output as it is, also with `--json`."""

    lines: bytes

    def to_json(self) -> dict[str, Json]:
        """Never used: the JSONL is the answer."""
        return {"schema": SCHEMA}


@dataclass(frozen=True, slots=True)
class Worked:
    """A worker that has stopped."""

    interrupted: bool

    @property
    def exit_code(self) -> int:
        """130 when a signal has ended it, as for every command."""
        return ExitCode.INTERRUPTED if self.interrupted else ExitCode.AS_WANTED

    def to_json(self) -> dict[str, Json]:
        """Return the object of `worker`."""
        return {"schema": SCHEMA, "interrupted": self.interrupted}


@dataclass(frozen=True, slots=True)
class DemoEnded:
    """The demo's batch, with what to look at next."""

    batch: BatchEnded
    program: str
    """How a shell calls this program with the same home."""

    @property
    def exit_code(self) -> int:
        """As for its batch."""
        return self.batch.exit_code

    def to_json(self) -> dict[str, Json]:
        """Return the object of its batch."""
        return self.batch.to_json()
