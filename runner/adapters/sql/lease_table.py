"""Leases on runs: who may write on behalf of a run.

A row appears with the first claim and stays: giving back only empties the holder, so that the
token never goes back.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from sqlalchemy import Connection, bindparam, insert, select, update

from runner.adapters.sql.rows import lease_to_row
from runner.adapters.sql.schema import LIVE_STATES, leases, runs
from runner.domain.ids import RunId
from runner.domain.records import Lease
from runner.errors import StaleLeaseError

# built once: a statement remembers how it was compiled. Locked rows stay as read until the
# transaction ends, where the database lets two write (SQLite never does)
_CURRENT = (
    select(leases.c.token, leases.c.holder, leases.c.expires_at)
    .where(leases.c.run_id == bindparam("run"))
    .with_for_update()
)
_TOKEN = (
    select(leases.c.token)
    .where(leases.c.run_id == bindparam("run"), leases.c.holder.is_not(None))
    .with_for_update()
)
_LIVE_RUN = (
    select(runs.c.run_id)
    .where(runs.c.run_id == bindparam("run"), runs.c.state.in_(LIVE_STATES))
    .with_for_update()
)
_OURS = (
    leases.c.run_id == bindparam("run"),
    leases.c.token == bindparam("held_token"),
    leases.c.holder.is_not(None),
)


class LeaseTable:
    """The leases, inside one write transaction."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def require(self, lease: Lease) -> None:
        """Check that a lease is the current one; it stays so until the transaction ends.

        Raises:
            StaleLeaseError: it was given back, ended, or passed to someone else.
        """
        token = self._connection.execute(_TOKEN, {"run": lease.run_id}).scalar_one_or_none()
        if token != lease.token:
            raise StaleLeaseError(lease.run_id)

    def claim(self, run_id: RunId, *, holder: str, now: datetime, seconds: float) -> Lease | None:
        """Take the lease of a live run that nobody holds, and count an attempt."""
        if self._connection.execute(_LIVE_RUN, {"run": run_id}).first() is None:
            return None
        row = self._connection.execute(_CURRENT, {"run": run_id}).one_or_none()
        if row is not None and row.holder is not None and row.expires_at > now:
            return None
        lease = Lease(
            run_id=run_id,
            token=1 if row is None else row.token + 1,
            holder=holder,
            expires_at=now + timedelta(seconds=seconds),
        )
        self._put(lease, first=row is None)
        self._connection.execute(
            update(runs).where(runs.c.run_id == run_id).values(attempt=runs.c.attempt + 1)
        )
        return lease

    def renew(self, lease: Lease, *, until: datetime) -> bool:
        """Push the end of a lease; False when it is not the current one."""
        done = self._connection.execute(
            update(leases)
            .where(*_OURS)
            .values(expires_at=bindparam("until", type_=leases.c.expires_at.type)),
            {"run": lease.run_id, "held_token": lease.token, "until": until},
        )
        return done.rowcount > 0

    def release(self, lease: Lease) -> None:
        """Give a lease back; a stale one is ignored."""
        self._connection.execute(
            update(leases).where(*_OURS).values(holder=None),
            {"run": lease.run_id, "held_token": lease.token},
        )

    def end(self, lease: Lease) -> bool:
        """End a lease exactly as it was seen; False when it moved on, a renewal included."""
        done = self._connection.execute(
            update(leases)
            .where(*_OURS, leases.c.expires_at == lease.expires_at)
            .values(holder=None),
            {"run": lease.run_id, "held_token": lease.token},
        )
        return done.rowcount > 0

    def _put(self, lease: Lease, *, first: bool) -> None:
        if first:
            self._connection.execute(insert(leases), lease_to_row(lease))
            return
        self._connection.execute(
            update(leases).where(leases.c.run_id == lease.run_id).values(lease_to_row(lease))
        )
