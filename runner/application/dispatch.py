"""The scheduler: gives queued runs a worker of this host, as far as its size and limits allow.

The queue only carries hints. What is due is read from the store again and again, so a lost message
loses nothing, and several dispatchers may look at one store: the lease decides who works.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

import structlog

from policies import Limits, parse_policy
from runner.application.batch_limits import BatchLimits
from runner.application.capacity import Capacity
from runner.application.close_unstarted import close_run, find_closing
from runner.application.keep_leases import LeaseKeeper
from runner.application.recover import break_dead_leases, list_due_runs, list_live_attempts
from runner.application.services import Services
from runner.application.stopping import StopReason
from runner.application.submit_batch import make_run
from runner.application.verify_task import VerifyCache
from runner.application.work_run import Desk, work_run
from runner.domain.ids import BatchId, RunId
from runner.domain.records import Batch, Run, Task
from runner.errors import StoreError

LOOK_SECONDS = 0.2
"""How often the store is asked what is due while nothing ends."""

REAP_SECONDS = 60.0
"""How often left-overs on the engine are looked for."""

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatchOptions:
    """What one dispatcher works on and how."""

    batch_id: BatchId | None = None
    """None = every batch in the store."""
    parallel: int = 8
    """At most so many runs at once, whatever the host could carry."""
    until_idle: bool = True
    """Return when nothing is due any more; else keep looking until told to stop."""


class Dispatcher:
    """Works on due runs with threads of this process."""

    def __init__(
        self,
        services: Services,
        capacity: Capacity,
        *,
        options: DispatchOptions,
        on_activity: Callable[[Task, str], None],
        on_ended: Callable[[Task], None],
    ) -> None:
        self._services = services
        self._capacity = capacity
        self._options = options
        self._on_activity = on_activity
        self._on_ended = on_ended
        self._cache = VerifyCache()
        self._limits = BatchLimits()
        self._active: dict[Future[None], tuple[Task, Limits]] = {}
        self._batches: dict[BatchId, Batch] = {}
        self._reaped_at = services.clock.monotonic()

    def run(self, stop: threading.Event) -> None:
        """Work until nothing is due, or for ever; when `stop` is set, suspend and return.

        Raises:
            StoreError: the store failed; runs under way are suspended.
        """
        break_dead_leases(self._services)
        self._reap()
        with (
            LeaseKeeper(self._services) as keeper,
            ThreadPoolExecutor(self._options.parallel) as pool,
        ):
            desk = Desk(
                verify_cache=self._cache,
                limits=self._limits,
                on_lease=keeper.hold,
                on_activity=self._on_activity,
            )
            try:
                while not stop.is_set() and self._look(pool, desk):
                    self._collect(stop)
            finally:
                keeper.stop_all(StopReason.SUSPENDED)
                wait(self._active)
                self._collect(stop)
        self._reap()

    def _look(self, pool: ThreadPoolExecutor, desk: Desk) -> bool:
        """Start what is due; False when there is nothing left to do."""
        self._publish_due()
        waiting = self._start_due(pool, desk)
        if self._services.clock.monotonic() - self._reaped_at > REAP_SECONDS:
            self._reap()
        return bool(self._active) or waiting or not self._options.until_idle

    def _publish_due(self) -> None:
        now = self._services.clock.now()
        with self._services.store.read() as view:
            due = list_due_runs(view, now, batch_id=self._options.batch_id)
            for batch_id in {run.batch_id for run in due} - set(self._batches):
                self._batches[batch_id] = view.get_batch(batch_id)
        working = {task.task_id for task, _ in self._active.values()}
        for run in due:
            if run.task_id not in working:
                self._services.queue.publish(run.run_id)

    def _start_due(self, pool: ThreadPoolExecutor, desk: Desk) -> bool:
        """Start runs while there is room; True when some have to wait."""
        waiting = False
        while len(self._active) < self._options.parallel:
            run_id = self._services.queue.take(timeout_seconds=0)
            if run_id is None:
                return waiting
            waiting = not self._start_or_close(run_id, pool, desk) or waiting
        return True

    def _start_or_close(self, run_id: RunId, pool: ThreadPoolExecutor, desk: Desk) -> bool:
        """Start a run, or end it where it must not start; False when it has to wait."""
        with self._services.store.read() as view:
            run = view.get_run(run_id)
            task = view.get_task(run.task_id)
        limits = parse_policy(json.loads(task.spec.policy)).sandbox.limits
        batch = self._batches[task.batch_id]
        closing = find_closing(task, batch, self._services, limits=limits, capacity=self._capacity)
        if closing is not None and run.started_at is None:
            outcome, reason = closing
            if close_run(run, self._services, outcome=outcome, reason=reason):
                self._on_ended(task)
            return True
        if not self._may_start(task, limits):
            return False
        future = pool.submit(self._work, task, run_id, desk)
        self._active[future] = (task, limits)
        return True

    def _may_start(self, task: Task, limits: Limits) -> bool:
        batch = self._batches[task.batch_id]
        of_batch = sum(1 for one, _ in self._active.values() if one.batch_id == batch.batch_id)
        if of_batch >= batch.spec.budget.tasks_parallel:
            return False
        return self._capacity.try_take(limits)

    def _work(self, task: Task, run_id: RunId, desk: Desk) -> None:
        """Work on a run in a thread of the pool.

        A bug of ours harms this task alone: its run is due again, and after some starts poisoned.
        """
        try:
            run = work_run(run_id, self._services, desk)
            if run is not None and run.state.terminal:
                self._after(task, run)
        except StoreError:
            raise
        except Exception:
            log.exception("run.crashed", task_id=task.task_id, run_id=run_id)

    def _after(self, task: Task, run: Run) -> None:
        if not self._wants_retry(task, run):
            self._on_ended(task)
            return
        with self._services.store.write() as writer:
            writer.add_run(make_run(task, self._services, number=run.number + 1))
        log.warning("task.retried", task_id=task.task_id, outcome=run.outcome)

    def _collect(self, stop: threading.Event) -> None:
        """Take in the runs that have ended; wait a moment for one."""
        if not self._active:
            stop.wait(LOOK_SECONDS)
        done, _ = wait(self._active, timeout=LOOK_SECONDS, return_when=FIRST_COMPLETED)
        for future in done:
            _, limits = self._active.pop(future)
            self._capacity.give_back(limits)
            future.result()

    def _wants_retry(self, task: Task, run: Run) -> bool:
        allowed = self._batches[task.batch_id].spec.retries
        if run.outcome is None or run.outcome not in allowed:
            return False
        with self._services.store.read() as view:
            same = [one for one in view.list_runs(task.task_id) if one.outcome is run.outcome]
        return len(same) <= allowed[run.outcome]

    def _reap(self) -> None:
        self._reaped_at = self._services.clock.monotonic()
        removed = self._services.host.reap(lambda: list_live_attempts(self._services))
        if removed:
            log.warning("leftovers.removed", count=removed)
        self._services.host.tidy()
