"""Heartbeats: keep the leases of this process alive and pass cancellations on to its runs.

A store that fails for a moment ends no heartbeat: it is asked again, and a lease that has lapsed
meanwhile is renewed as long as nobody else has taken it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from types import TracebackType
from typing import Self

import structlog

from runner.application.services import Services
from runner.application.stopping import StopFlag, StopReason
from runner.application.work_run import LEASE_SECONDS
from runner.domain.ids import RunId
from runner.domain.records import Lease, Task
from runner.errors import NotFoundError, StaleLeaseError, StoreError

LOOK_SECONDS = 0.5
"""How often cancellations are looked for in the store."""

RENEW_SECONDS = LEASE_SECONDS / 3
"""How old a lease gets before it is renewed, on the clock that leases are judged by: the monotonic
one stands still while a laptop sleeps."""

log = structlog.get_logger()


@dataclass(slots=True)
class _Held:
    task: Task
    lease: Lease
    stop: StopFlag


class LeaseKeeper:
    """One thread for all runs of a process. A context manager."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._held: dict[RunId, _Held] = {}
        self._lock = threading.Lock()
        self._stopping: StopReason | None = None
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="lease-keeper", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._closing.set()
        self._thread.join()

    def hold(self, task: Task, lease: Lease, stop: StopFlag) -> Callable[[], None]:
        """Keep a lease alive until the returned function is called."""
        with self._lock:
            self._held[lease.run_id] = _Held(task, lease, stop)
            if self._stopping is not None:
                stop.stop(self._stopping)
        return lambda: self._let_go(lease.run_id)

    def stop_all(self, reason: StopReason) -> None:
        """Tell every run of this process to stop, also those that are claimed from now on."""
        with self._lock:
            self._stopping = reason
            held = list(self._held.values())
        for one in held:
            one.stop.stop(reason)

    def look(self) -> None:
        """Renew what is due and look for cancellations, once; the thread does it for ever."""
        with self._lock:
            held = list(self._held.values())
        for one in held:
            try:
                self._renew(one)
            except (StoreError, NotFoundError) as error:
                log.warning("lease.renewal_failed", run_id=one.lease.run_id, problem=str(error))
        try:
            self._pass_cancellations_on(held)
        except StoreError as error:
            log.warning("lease.look_failed", problem=str(error))

    def _keep(self) -> None:
        while not self._closing.wait(LOOK_SECONDS):
            self.look()

    def _let_go(self, run_id: RunId) -> None:
        with self._lock:
            self._held.pop(run_id, None)

    def _renew(self, one: _Held) -> None:
        now = self._services.clock.now()
        if one.lease.expires_at - now > timedelta(seconds=LEASE_SECONDS - RENEW_SECONDS):
            return
        try:
            one.lease = self._services.store.renew_lease(one.lease, now=now, seconds=LEASE_SECONDS)
        except StaleLeaseError:
            self._note_loss(one)

    def _note_loss(self, one: _Held) -> None:
        with self._lock:
            if self._held.get(one.lease.run_id) is not one:
                return  # its worker was done meanwhile and gave it back
        one.stop.stop(StopReason.LEASE_LOST)
        log.warning("lease.lost", run_id=one.lease.run_id)

    def _pass_cancellations_on(self, held: Sequence[_Held]) -> None:
        if not held:
            return
        with self._services.store.read() as view:
            cancelled = view.list_cancelled([one.task.task_id for one in held])
        for one in held:
            if one.task.task_id in cancelled:
                one.stop.stop(StopReason.CANCELLED)
