"""Move one run on: claim it, prepare it, let the agent take its steps, verify, end it.

The loop keeps nothing of its own: what is to do next is read from the rollout, so a run that was
cut off anywhere goes on from its last durable point.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import structlog

from policies import PolicyError, parse_policy
from runner.application.await_engine import EnginePatience, await_engine
from runner.application.batch_limits import BatchLimits, find_batch_limit
from runner.application.close_run import close_run
from runner.application.end_run import RunEnd, decide_completed, end_run
from runner.application.execute_call import CallUnknownError, Executor
from runner.application.ports.model import Model
from runner.application.prepare_run import Prepared, open_session, prepare_run
from runner.application.sandbox_spec import make_agent_spec
from runner.application.services import Services
from runner.application.session import Session
from runner.application.shared_setups import SharedSetups
from runner.application.stopping import RunStoppedError, StopFlag, StopReason
from runner.application.think import think
from runner.application.tools import make_tools
from runner.application.verify_task import VerifyCache, verify_after, verify_before
from runner.domain.budget import LimitHit, find_limit
from runner.domain.calls import ToolSchema
from runner.domain.context import find_pending_calls
from runner.domain.ids import RunId
from runner.domain.items import Event
from runner.domain.outcome import Outcome, RunState
from runner.domain.progress import (
    MAX_CORRECTIONS,
    RESUMED,
    SANDBOX_LOST,
    SUSPENDED,
    count_corrections,
    count_losses,
    has_finished,
)
from runner.domain.records import Batch, Lease, Run, Task, VerifyResult
from runner.errors import (
    DamagedRolloutError,
    MissingError,
    ModelError,
    ModelRefusedError,
    NotFoundError,
    ScriptError,
    SetupFailedError,
    StaleLeaseError,
    StaleVersionError,
)
from sandbox import (
    DiskFullError,
    EngineUnavailableError,
    Sandbox,
    SandboxError,
    SandboxLostError,
)

LEASE_SECONDS = 30.0
"""How long a lease lasts without a heartbeat."""

MAX_LOSSES = 5
"""A run whose worker was lost so often is poisoned."""

MAX_REBUILDS = 3
"""How often one stay at a run makes a sandbox, the engine or the container having gone away."""

CALL_LIMITS = frozenset({"wall_seconds", "tool_seconds", "output_mib"})
"""Limits that also stop calls which the model has already asked for."""

UNUSABLE = (DamagedRolloutError, PolicyError, NotFoundError)
"""What a run's own records fail with: it cannot be worked on, and trying again cannot help."""

T = TypeVar("T")

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """What the workers of one process share beside the services."""

    verify_cache: VerifyCache
    limits: BatchLimits
    setups: SharedSetups = field(default_factory=SharedSetups)
    patience: EnginePatience = field(default_factory=EnginePatience)
    on_lease: Callable[[Task, Lease, StopFlag], Callable[[], None]]
    """Told of each claimed run; keeps its lease alive until the returned function is called."""
    on_activity: Callable[[Task, str], None]
    """Told in a few words what a task is doing now."""


def work_run(run_id: RunId, services: Services, desk: Desk) -> Run | None:
    """Work on a run until it ends, waits or is stopped.

    Returns:
        The run as it was left, or None when its lease could not be had.

    Raises:
        StoreError: the store failed; the run goes on later from its last durable point.
    """
    lease = services.store.claim_run(
        run_id, holder=services.holder, now=services.clock.now(), seconds=LEASE_SECONDS
    )
    if lease is None:
        return None
    with services.store.read() as view:
        run = view.get_run(run_id)
        task = view.get_task(run.task_id)
        batch = view.get_batch(run.batch_id)
    stop = StopFlag()
    let_go = desk.on_lease(task, lease, stop)
    try:
        session = open_claimed(services, task, run, lease=lease, stop=stop)
        worker = RunWorker(session, desk, batch=batch)
    except UNUSABLE as error:
        return close_unusable(run, services, error)
    else:
        return worker.work()
    finally:
        let_go()
        services.store.release_lease(lease)


def open_claimed(
    services: Services, task: Task, run: Run, *, lease: Lease, stop: StopFlag
) -> Session:
    """Return the session of a claimed run.

    Raises:
        DamagedRolloutError: its rollout is not what was written.
        PolicyError: this release cannot use the policy that it was submitted with.
    """
    policy = parse_policy(json.loads(task.spec.policy))
    return Session(services, task, run, lease=lease, policy=policy, stop=stop)


def close_unusable(run: Run, services: Services, error: Exception) -> Run:
    """End a run whose own records cannot be used; its rollout stays as it is."""
    log.error("run.unusable", task_id=run.task_id, run_id=run.run_id, problem=str(error))
    close_run(run, services, outcome=Outcome.INFRASTRUCTURE_ERROR, reason=str(error))
    with services.store.read() as view:
        return view.get_run(run.run_id)


class RunWorker:
    """One stay of one worker at one run."""

    def __init__(self, session: Session, desk: Desk, *, batch: Batch) -> None:
        self._services = session.services
        self._desk = desk
        self._batch = batch
        self._session = session
        self._tools = make_tools(_list_tools(self._session))
        self._ending_tools = frozenset(name for name, one in self._tools.items() if one.ends_run)
        self._log = log.bind(task_id=session.task.task_id, run_id=session.run.run_id)

    def work(self) -> Run:
        """Work until the run ends, waits or is stopped; errors become outcomes."""
        try:
            self._work_to_an_outcome()
        except (StaleLeaseError, StaleVersionError):
            self._log.warning("run.lease_lost")
        return self._session.run

    def _work_to_an_outcome(self) -> None:
        try:
            self._work()
        except RunStoppedError as stopped:
            self._stopped(stopped.reason)
        except CallUnknownError as unknown:
            self._log.warning("run.needs_attention", reason=str(unknown))
        except (SandboxError, ModelError, MissingError, ScriptError, SetupFailedError) as error:
            self._end(_end_for(error))

    def _work(self) -> None:
        session = self._session
        if session.task.cancelled_at is not None:
            raise RunStoppedError(StopReason.CANCELLED)
        losses = count_losses(session.items, session.run)
        if losses >= MAX_LOSSES:
            self._end(RunEnd(Outcome.POISONED, f"its worker was lost {losses} times"))
            return
        self._mark_running()
        self._tell("preparing")
        prepared = self._patiently(self._prepare)
        self._patiently(lambda: self._check_before(prepared))
        end = self._run_agent(prepared)
        if end is not None:
            self._end(*self._check_after_budget(prepared, end))
            return
        verified = self._patiently(lambda: self._check_after(prepared))
        self._end(decide_completed(session, verified), verified)

    def _prepare(self) -> Prepared:
        if self._session.task.spec.setup is not None:
            self._tell("setting up")
        return prepare_run(self._session, setups=self._desk.setups)

    def _mark_running(self) -> None:
        session = self._session
        name = "run.started" if session.run.started_at is None else RESUMED
        with session.step() as step:
            step.move_run(RunState.RUNNING)
            if step.run.started_at is None:
                step.run = replace(step.run, started_at=self._services.clock.now())
            if session.items:
                step.append(Event(name=name, run_id=session.run.run_id))
            else:
                open_session(session, step)
        self._log.info(name, attempt=session.run.attempt)

    def _check_before(self, prepared: Prepared) -> None:
        session = self._session
        if session.task.spec.verify is None or session.run.verify_before is not None:
            return
        self._tell("checking the files as they are")
        started = self._services.clock.monotonic()
        result = verify_before(session, prepared, cache=self._desk.verify_cache)
        with session.step() as step:
            step.run = replace(self._count_check(step.run, started), verify_before=result)

    def _count_check(self, run: Run, started: float) -> Run:
        """Add what a check took, its container included, to the clock of verification."""
        passed = int((self._services.clock.monotonic() - started) * 1000)
        return replace(run, verify_milliseconds=run.verify_milliseconds + passed)

    def _run_agent(self, prepared: Prepared) -> RunEnd | None:
        """Let the agent work; None when it says that it is done.

        Its clock runs while it has a sandbox, not while one is made or removed.
        """
        model = self._services.models.find_model(self._session.task.spec.agent)
        for rebuild in range(MAX_REBUILDS):
            spec = make_agent_spec(self._session, prepared.image_id)
            try:
                with (
                    self._services.host.open_sandbox(spec) as sandbox,
                    self._session.ticking(),
                ):
                    return self._take_steps(model, sandbox)
            except (SandboxLostError, EngineUnavailableError) as lost:
                self._note_loss(lost, last=rebuild == MAX_REBUILDS - 1)
                self._await_engine()
        raise AssertionError("the last loss is raised again")

    def _patiently(self, work: Callable[[], T]) -> T:
        """Do what needs the engine; where it goes away, wait for it and begin again."""
        for _ in range(MAX_REBUILDS - 1):
            try:
                return work()
            except EngineUnavailableError as error:
                self._log.warning("engine.gone", problem=str(error))
                self._await_engine()
        return work()

    def _await_engine(self) -> None:
        self._tell("waiting for the engine")
        await_engine(self._services, self._desk.patience, stop=self._session.stop)

    def _note_loss(self, lost: SandboxError, *, last: bool) -> None:
        with self._session.step() as step:
            step.append(
                Event(name=SANDBOX_LOST, run_id=self._session.run.run_id, detail=str(lost))
            )
        if last:
            raise lost
        self._log.warning("sandbox.lost", problem=str(lost))

    def _take_steps(self, model: Model, sandbox: Sandbox) -> RunEnd | None:
        session = self._session
        executor = Executor(session, sandbox, tools=self._tools)
        schemas = [tool.schema for tool in self._tools.values()]
        while True:
            session.stop.check()
            pending = find_pending_calls(session.items)
            if pending:
                hit = find_limit(session.task.spec.budget.to_budget(), session.current_usage())
                if hit is not None and hit.limit in CALL_LIMITS:
                    return _end_for_limit(hit)
                self._tell(f"{pending[0].name}")
                executor.execute(pending[0])
                continue
            if has_finished(session.items, self._ending_tools):
                return None
            end = self._find_end()
            if end is not None:
                return end
            self._think(model, schemas)

    def _think(self, model: Model, schemas: Sequence[ToolSchema]) -> None:
        """Ask the model once; waiting for a slot is no time of the agent."""
        session = self._session
        self._tell("thinking")
        session.stop_clock()
        with self._desk.limits.model_call(self._batch, session.stop):
            session.start_clock()
            think(session, model, model_name=model.name, tools=schemas)

    def _find_end(self) -> RunEnd | None:
        session = self._session
        if count_corrections(session.items) >= MAX_CORRECTIONS:
            return RunEnd(
                Outcome.AGENT_FAILED, f"{MAX_CORRECTIONS} calls in a row could not be understood"
            )
        hit = find_limit(session.task.spec.budget.to_budget(), session.current_usage())
        hit = hit or find_batch_limit(self._batch, self._services)
        return None if hit is None else _end_for_limit(hit)

    def _check_after(self, prepared: Prepared) -> VerifyResult | None:
        session = self._session
        if session.task.spec.verify is None:
            return None
        self._tell("verifying")
        started = self._services.clock.monotonic()
        result = verify_after(session, prepared)
        with session.step() as step:
            step.run = replace(self._count_check(step.run, started), verify_after=result)
        return result

    def _check_after_budget(
        self, prepared: Prepared, end: RunEnd
    ) -> tuple[RunEnd, VerifyResult | None]:
        """Verify to show it; the outcome stays, also where the check cannot be made."""
        try:
            return end, self._patiently(lambda: self._check_after(prepared))
        except SandboxError as error:
            return replace(end, reason=f"{end.reason}; it was not verified: {error}"), None

    def _end(self, end: RunEnd, verified: VerifyResult | None = None) -> None:
        retries = self._batch.spec.retries
        retry = end_run(self._session, end, verified=verified, retries=retries)
        self._log.info("run.ended", outcome=end.outcome.value, reason=end.reason)
        if retry is not None:
            self._log.warning("task.retried", outcome=end.outcome.value, next_run=retry.run_id)
        self._tell(end.outcome.value)

    def _stopped(self, reason: StopReason) -> None:
        session = self._session
        if reason is StopReason.LEASE_LOST:
            self._log.warning("run.lease_lost")
            return
        if reason is StopReason.CANCELLED:
            self._end(RunEnd(Outcome.CANCELLED, "cancelled"))
            return
        session.stop_clock()
        with session.step() as step:
            step.move_run(RunState.QUEUED, reason="suspended")
            step.append(Event(name=SUSPENDED, run_id=session.run.run_id))
        self._log.info("run.suspended")
        self._tell("suspended")

    def _tell(self, activity: str) -> None:
        self._desk.on_activity(self._session.task, activity)


def _end_for_limit(hit: LimitHit) -> RunEnd:
    reason = f"the budget for {hit.limit} is used up ({hit.used} of {hit.allowed})"
    if hit.limit == "wall_seconds":
        return RunEnd(Outcome.TIMED_OUT, reason)
    return RunEnd(Outcome.BUDGET_EXHAUSTED, reason)


def _end_for(
    error: SandboxError | ModelError | MissingError | ScriptError | SetupFailedError,
) -> RunEnd:
    match error:
        case SandboxLostError():
            outcome = Outcome.SANDBOX_LOST
        case DiskFullError():
            outcome = Outcome.DISK_FULL
        case ModelRefusedError():
            outcome = Outcome.REFUSED
        case _:
            outcome = Outcome.INFRASTRUCTURE_ERROR
    return RunEnd(outcome, str(error))


def _list_tools(session: Session) -> list[str]:
    """Return the policy's tools; run_verify only where the task names a verification."""
    verified = session.task.spec.verify is not None
    return [name for name in session.policy.tools if verified or name != "run_verify"]
