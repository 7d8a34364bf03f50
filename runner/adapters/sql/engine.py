"""Opens SQLite the way the store's promises need it.

Python's sqlite3 opens transactions by itself, late and deferred; here it is told not to, and each
transaction begins as its engine says: writes IMMEDIATE, so that a reader never has to become a
writer half-way (that fails at once, whatever the busy time-out), reads DEFERRED.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event
from sqlalchemy.pool import ConnectionPoolEntry

BUSY_SECONDS = 30
"""How long a writer waits for another process's transaction."""

_IDLE_CONNECTIONS = 8  # more are opened when needed and closed after; no thread waits for one

_PRAGMAS = (
    f"PRAGMA busy_timeout = {BUSY_SECONDS * 1000}",
    "PRAGMA foreign_keys = ON",
    # an acknowledged commit survives a power cut
    "PRAGMA synchronous = FULL",
    # so that REPLACE cannot remove a row past the triggers that refuse it
    "PRAGMA recursive_triggers = ON",
)

_WRITES = "forkyard_writes"


def make_sqlite_engine(path: Path) -> Engine:
    """Make an engine on a database file; nothing is opened yet."""
    engine = create_engine(
        URL.create("sqlite", database=str(path)),
        pool_size=_IDLE_CONNECTIONS,
        max_overflow=-1,
        pool_use_lifo=True,
    )
    event.listen(engine, "connect", _prepare_connection)
    event.listen(engine, "begin", _begin)
    return engine


def for_writes(engine: Engine) -> Engine:
    """Return a view of an engine whose transactions are writes from the start."""
    return engine.execution_options(**{_WRITES: True})


def _prepare_connection(connection: Any, _entry: ConnectionPoolEntry) -> None:
    connection.isolation_level = None
    for pragma in _PRAGMAS:
        connection.execute(pragma).close()


def _begin(connection: Connection) -> None:
    writes = connection.get_execution_options().get(_WRITES, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN DEFERRED")
