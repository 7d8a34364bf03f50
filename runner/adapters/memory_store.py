"""The store's double: everything in memory, with the same promises but durability."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta

from runner.adapters.memory_tables import MemoryReader, MemoryTables, MemoryWriter
from runner.domain.ids import RunId
from runner.domain.records import Lease
from runner.errors import StaleLeaseError


class MemoryStore:
    """Opens transactions on values in memory. A write works on a copy that replaces the whole."""

    def __init__(self) -> None:
        self._tables = MemoryTables()
        self._mutex = threading.Lock()
        self._writer: int | None = None
        """The thread that writes; None = none does."""

    @contextmanager
    def read(self) -> Iterator[MemoryReader]:
        """Open a consistent view."""
        yield MemoryReader(self._tables)

    @contextmanager
    def write(self, lease: Lease | None = None) -> Iterator[MemoryWriter]:
        """Open a transaction; it commits when the block ends without an exception.

        Raises:
            StaleLeaseError: the lease is not the run's current one; nothing was kept.
            RuntimeError: this thread has a write transaction open already.
        """
        with self._write() as tables:
            if lease is not None and not _is_current(tables, lease):
                raise StaleLeaseError(lease.run_id)
            yield MemoryWriter(tables)

    def claim_run(
        self, run_id: RunId, *, holder: str, now: datetime, seconds: float
    ) -> Lease | None:
        """Take the lease of a run that is not terminal and has no live lease; count an attempt."""
        with self._write() as tables:
            run = tables.runs.get(run_id)
            held = tables.leases.get(run_id)
            if run is None or run.state.terminal:
                return None
            if held is not None and held.expires_at > now:
                return None
            token = tables.tokens.get(run_id, 0) + 1
            lease = Lease(
                run_id=run_id,
                token=token,
                holder=holder,
                expires_at=now + timedelta(seconds=seconds),
            )
            tables.tokens[run_id] = token
            tables.leases[run_id] = lease
            tables.runs[run_id] = replace(run, attempt=run.attempt + 1)
            return lease

    def renew_lease(self, lease: Lease, *, now: datetime, seconds: float) -> Lease:
        """Push the end of a lease.

        Raises:
            StaleLeaseError: it was given back, ended, or passed to someone else.
        """
        with self._write() as tables:
            if not _is_current(tables, lease):
                raise StaleLeaseError(lease.run_id)
            renewed = replace(lease, expires_at=now + timedelta(seconds=seconds))
            tables.leases[lease.run_id] = renewed
            return renewed

    def release_lease(self, lease: Lease) -> None:
        """Give a lease back; a stale one is ignored."""
        with self._write() as tables:
            if _is_current(tables, lease):
                del tables.leases[lease.run_id]

    def break_lease(self, lease: Lease) -> bool:
        """End another holder's lease whose process is known to be gone; False if it moved on."""
        with self._write() as tables:
            if tables.leases.get(lease.run_id) != lease:
                return False
            del tables.leases[lease.run_id]
            return True

    @contextmanager
    def _write(self) -> Iterator[MemoryTables]:
        if self._writer == threading.get_ident():
            raise RuntimeError(
                "a write transaction inside a write transaction would wait for ever"
            )
        with self._mutex:
            self._writer = threading.get_ident()
            try:
                tables = self._tables.copy()
                yield tables
                self._tables = tables
            finally:
                self._writer = None


def _is_current(tables: MemoryTables, lease: Lease) -> bool:
    held = tables.leases.get(lease.run_id)
    return held is not None and held.token == lease.token
