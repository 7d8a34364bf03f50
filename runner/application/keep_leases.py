"""Heartbeats: keep the leases of this process alive and pass cancellations on to its runs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import structlog

from runner.application.services import Services
from runner.application.stopping import StopFlag, StopReason
from runner.application.work_run import LEASE_SECONDS
from runner.domain.ids import RunId
from runner.domain.records import Lease, Task
from runner.errors import StaleLeaseError

LOOK_SECONDS = 0.5
"""How often cancellations are looked for in the store."""

RENEW_SECONDS = LEASE_SECONDS / 3

log = structlog.get_logger()


@dataclass(slots=True)
class _Held:
    task: Task
    lease: Lease
    stop: StopFlag
    renewed_at: float


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
        now = self._services.clock.monotonic()
        with self._lock:
            self._held[lease.run_id] = _Held(task, lease, stop, now)
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

    def _let_go(self, run_id: RunId) -> None:
        with self._lock:
            self._held.pop(run_id, None)

    def _keep(self) -> None:
        while not self._closing.wait(LOOK_SECONDS):
            with self._lock:
                held = list(self._held.values())
            for one in held:
                self._look_after(one)

    def _look_after(self, one: _Held) -> None:
        with self._services.store.read() as view:
            if view.get_task(one.task.task_id).cancelled_at is not None:
                one.stop.stop(StopReason.CANCELLED)
        now = self._services.clock.monotonic()
        if now - one.renewed_at < RENEW_SECONDS:
            return
        try:
            one.lease = self._services.store.renew_lease(
                one.lease, now=self._services.clock.now(), seconds=LEASE_SECONDS
            )
            one.renewed_at = now
        except StaleLeaseError:
            one.stop.stop(StopReason.LEASE_LOST)
            log.warning("lease.lost", run_id=one.lease.run_id)
