"""Limits of a whole batch: model calls at once, and money over all its tasks."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from runner.application.ports.store import StoreReader
from runner.application.services import Services
from runner.application.stopping import StopFlag
from runner.domain.budget import LimitHit
from runner.domain.ids import BatchId
from runner.domain.records import Batch, Run

LOOK_SECONDS = 0.2
"""How often a run that waits for a slot looks whether it was told to stop."""


class BatchLimits:
    """Shared by the workers of one process. Thread-safe."""

    def __init__(self) -> None:
        self._slots: dict[BatchId, threading.Semaphore] = {}
        self._lock = threading.Lock()

    @contextmanager
    def model_call(self, batch: Batch, stop: StopFlag) -> Iterator[None]:
        """Hold one of the batch's slots for a model call.

        Raises:
            RunStoppedError: the run was told to stop while it waited.
        """
        slots = self._slots_of(batch)
        while not slots.acquire(timeout=LOOK_SECONDS):
            stop.check()
        try:
            yield
        finally:
            slots.release()

    def _slots_of(self, batch: Batch) -> threading.Semaphore:
        with self._lock:
            count = max(batch.spec.budget.model_calls_parallel, 1)
            return self._slots.setdefault(batch.batch_id, threading.Semaphore(count))


def find_batch_limit(batch: Batch, services: Services) -> LimitHit | None:
    """Return the batch's money limit when all runs of all its tasks have used it up, or None."""
    allowed = batch.spec.budget.cost_micro_usd
    if not allowed:
        return None
    with services.store.read() as view:
        used = sum(_cost_so_far(view, last) for last in view.list_last_runs(batch.batch_id))
    return LimitHit("cost_micro_usd of the batch", allowed, used) if used >= allowed else None


def _cost_so_far(view: StoreReader, last: Run) -> int:
    """Add up a task's runs; the earlier ones are read only where there are any."""
    runs = (last,) if last.number == 1 else view.list_runs(last.task_id)
    return sum(run.usage.cost_micro_usd for run in runs)
