"""The scheduler: gives queued runs a worker of this host, as far as its size and limits allow.

The queue only carries hints. What is due is read from the store again and again, so a lost message
loses nothing, and several dispatchers may look at one store: the lease decides who works.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Collection
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

import structlog

from policies import Limits, PolicyError, parse_policy
from runner.application.batch_limits import BatchLimits
from runner.application.capacity import Capacity
from runner.application.end_idle_run import (
    end_idle_run,
    find_cancelled,
    find_expired,
    find_misfit,
)
from runner.application.end_run import RunEnd
from runner.application.keep_leases import LeaseKeeper
from runner.application.recover import break_dead_leases, list_due_runs, remove_leftovers
from runner.application.room import find_shortage
from runner.application.services import Services
from runner.application.stopping import StopReason
from runner.application.verify_task import VerifyCache
from runner.application.work_run import Desk, work_run
from runner.domain.ids import BatchId, RunId
from runner.domain.outcome import Outcome
from runner.domain.records import Batch, Run, Task
from runner.errors import StoreBusyError, StoreError
from sandbox import SandboxError

LOOK_SECONDS = 0.2
"""How often an idle dispatcher asks the store what is due."""

REREAD_SECONDS = 1.0
"""How often a busy one does while none of its runs ends."""

REAP_SECONDS = 60.0
"""How often left-overs on the engine are looked for."""

ROOM_SECONDS = 1.0
"""How long a look at the room on the disks is good for."""

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
        """Of the runs that are due or under way."""
        self._due: dict[RunId, Run] = {}
        """As the store said at the last look."""
        self._waiting: dict[RunId, Limits] = {}
        """What due runs need that have found no room yet."""
        self._shortage = ""
        """Why no run starts; empty while there is room on the disks."""
        self._measured_at = -ROOM_SECONDS
        self._changed = True
        """A run has ended since the last look."""
        self._looked_at = services.clock.monotonic()
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
                self._take_in(wait(self._active).done)
        self._reap()

    def _look(self, pool: ThreadPoolExecutor, desk: Desk) -> bool:
        """Start what is due; False when there is nothing left to do."""
        if self._is_look_due():
            self._publish_due()
        waiting = self._start_due(pool, desk)
        if self._services.clock.monotonic() - self._reaped_at > REAP_SECONDS:
            self._reap()
        return bool(self._active) or waiting or not self._options.until_idle

    def _is_look_due(self) -> bool:
        """Tell whether the store may say something new: a run has ended, or a while has passed."""
        passed = self._services.clock.monotonic() - self._looked_at
        return self._changed or not self._active or passed >= REREAD_SECONDS

    def _publish_due(self) -> None:
        self._changed = False
        self._looked_at = self._services.clock.monotonic()
        now = self._services.clock.now()
        working = {task.task_id for task, _ in self._active.values()}
        with self._services.store.read() as view:
            listed = list_due_runs(view, now, batch_id=self._options.batch_id)
            self._due = {run.run_id: run for run in listed if run.task_id not in working}
            self._waiting = {one: self._waiting[one] for one in self._due if one in self._waiting}
            wanted = {run.batch_id for run in listed}
            wanted.update(task.batch_id for task, _ in self._active.values())
            self._batches = {one: self._batches.get(one) or view.get_batch(one) for one in wanted}
        for run_id in self._due:
            self._services.queue.publish(run_id)

    def _start_due(self, pool: ThreadPoolExecutor, desk: Desk) -> bool:
        """Start runs while there is room; True when some have to wait."""
        waiting = False
        while len(self._active) < self._options.parallel:
            run_id = self._services.queue.take(timeout_seconds=0)
            if run_id is None:
                return waiting
            run = self._due.pop(run_id, None)
            if run is not None:
                waiting = not self._start_or_end(run, pool, desk) or waiting
        return True

    def _start_or_end(self, run: Run, pool: ThreadPoolExecutor, desk: Desk) -> bool:
        """Start a run, or end it where it must not go on; False when it has to wait.

        A run that has to wait is not read again: there may be thousands, and this is asked often.
        """
        expired = find_expired(run, self._batches[run.batch_id], now=self._services.clock.now())
        if expired is None and (self._has_to_wait(run) or self._is_short_of_room(run)):
            return False
        with self._services.store.read() as view:
            task = view.get_task(run.task_id)
        try:
            limits = parse_policy(json.loads(task.spec.policy)).sandbox.limits
        except PolicyError as error:
            return self._end(run, task, RunEnd(Outcome.INFRASTRUCTURE_ERROR, str(error)))
        end = find_cancelled(run, task) or expired or find_misfit(limits, self._capacity)
        if end is not None:
            return self._end(run, task, end)
        if not self._capacity.try_take(limits):
            self._waiting[run.run_id] = limits
            return False
        future = pool.submit(self._work, task, run.run_id, desk)
        self._active[future] = (task, limits)
        return True

    def _has_to_wait(self, run: Run) -> bool:
        batch = self._batches[run.batch_id]
        of_batch = sum(1 for one, _ in self._active.values() if one.batch_id == batch.batch_id)
        if of_batch >= batch.spec.budget.tasks_parallel:
            return True
        known = self._waiting.get(run.run_id)
        return known is not None and not self._capacity.can_hold_now(known)

    def _is_short_of_room(self, run: Run) -> bool:
        """Tell whether runs wait for room on a disk; said once when it begins and when it ends."""
        now = self._services.clock.monotonic()
        if now - self._measured_at < ROOM_SECONDS:
            return bool(self._shortage)
        self._measured_at = now
        shortage = find_shortage(self._services)
        if shortage and not self._shortage:
            log.warning("runs.waiting", problem=shortage)
            with self._services.store.read() as view:
                self._on_activity(view.get_task(run.task_id), f"waiting for room: {shortage}")
        if self._shortage and not shortage:
            log.info("runs.going_on")
        self._shortage = shortage
        return bool(shortage)

    def _end(self, run: Run, task: Task, end: RunEnd) -> bool:
        if end_idle_run(run, self._services, end):
            self._on_ended(task)
        return True

    def _work(self, task: Task, run_id: RunId, desk: Desk) -> None:
        """Work on a run in a thread of the pool.

        A bug of ours harms this task alone: its run is due again, and after some starts poisoned.
        So it is when others keep the store locked, which ends no batch.
        """
        try:
            run = work_run(run_id, self._services, desk)
            if run is not None and run.state.terminal and self._is_last(run):
                self._on_ended(task)
        except StoreBusyError as error:
            log.warning("run.put_off", run_id=run_id, problem=str(error))
        except StoreError:
            raise
        except Exception:
            log.exception("run.crashed", task_id=task.task_id, run_id=run_id)

    def _is_last(self, run: Run) -> bool:
        """Tell whether a run that has ended is followed by no retry."""
        with self._services.store.read() as view:
            return view.list_runs(run.task_id)[-1].run_id == run.run_id

    def _collect(self, stop: threading.Event) -> None:
        """Take in the runs that have ended; wait a moment for one."""
        if not self._active:
            stop.wait(LOOK_SECONDS)
        waited = wait(self._active, timeout=LOOK_SECONDS, return_when=FIRST_COMPLETED)
        self._take_in(waited.done)

    def _take_in(self, done: Collection[Future[None]]) -> None:
        for future in done:
            _, limits = self._active.pop(future)
            self._capacity.give_back(limits)
            self._changed = True
            future.result()

    def _reap(self) -> None:
        self._reaped_at = self._services.clock.monotonic()
        remove_leftovers(self._services)
        try:
            self._services.host.tidy()
        except SandboxError as error:
            log.warning("snapshots.untidy", problem=str(error))
