"""What SQLAlchemy and SQLite report, as errors of ours. Nothing above sees theirs."""

from __future__ import annotations

import sqlite3

from sqlalchemy import exc

from runner.errors import (
    ConflictError,
    NotFoundError,
    RunnerError,
    StoreBusyError,
    StoreError,
    StoreFullError,
    StoreUnusableError,
)

SQLITE_ERRORS: dict[int, type[RunnerError]] = {
    sqlite3.SQLITE_ERROR: StoreError,
    sqlite3.SQLITE_INTERNAL: StoreError,
    sqlite3.SQLITE_PERM: StoreUnusableError,
    sqlite3.SQLITE_ABORT: StoreError,
    sqlite3.SQLITE_BUSY: StoreBusyError,
    sqlite3.SQLITE_LOCKED: StoreBusyError,
    sqlite3.SQLITE_NOMEM: StoreError,
    sqlite3.SQLITE_READONLY: StoreUnusableError,
    sqlite3.SQLITE_INTERRUPT: StoreError,
    sqlite3.SQLITE_IOERR: StoreError,
    sqlite3.SQLITE_CORRUPT: StoreUnusableError,
    sqlite3.SQLITE_NOTFOUND: StoreError,
    sqlite3.SQLITE_FULL: StoreFullError,
    sqlite3.SQLITE_CANTOPEN: StoreUnusableError,
    sqlite3.SQLITE_PROTOCOL: StoreBusyError,  # the race for WAL's locks was lost too often
    sqlite3.SQLITE_EMPTY: StoreError,
    sqlite3.SQLITE_SCHEMA: StoreError,
    sqlite3.SQLITE_TOOBIG: StoreError,
    sqlite3.SQLITE_CONSTRAINT: ConflictError,
    sqlite3.SQLITE_MISMATCH: StoreError,
    sqlite3.SQLITE_MISUSE: StoreError,
    sqlite3.SQLITE_NOLFS: StoreUnusableError,
    sqlite3.SQLITE_AUTH: StoreUnusableError,
    sqlite3.SQLITE_FORMAT: StoreUnusableError,
    sqlite3.SQLITE_RANGE: StoreError,
    sqlite3.SQLITE_NOTADB: StoreUnusableError,
}
"""Every primary result code of SQLite that is an error (https://sqlite.org/rescode.html)."""

SQLITE_FULL_EXTENDED = frozenset({sqlite3.SQLITE_IOERR_SHMSIZE})
"""Extended codes that mean a full disk although their primary code does not."""


def translate(error: exc.SQLAlchemyError | sqlite3.Error) -> RunnerError:
    """Return the error of ours for a foreign one; raise it from the other."""
    if isinstance(error, sqlite3.Error):
        return _translate_sqlite(error)
    if isinstance(error, exc.TimeoutError):
        return StoreBusyError(f"no connection to the store became free: {error}")
    if isinstance(error, exc.DBAPIError) and isinstance(error.orig, sqlite3.Error):
        return _translate_sqlite(error.orig)
    if isinstance(error, exc.IntegrityError):
        return ConflictError(f"the store refuses it: {error.orig}")
    if isinstance(error, exc.StatementError):
        return StoreError(f"the store could not do it: {error.orig or error}")
    return StoreError(f"the store could not do it: {error}")


def translate_insert(
    error: exc.IntegrityError, *, taken: ConflictError, missing: NotFoundError
) -> RunnerError:
    """Return what a refused insert means: `missing` when it refers to a row that is not there."""
    if getattr(error.orig, "sqlite_errorcode", 0) == sqlite3.SQLITE_CONSTRAINT_FOREIGNKEY:
        return missing
    if getattr(error.orig, "sqlstate", "") == "23503":  # PostgreSQL: foreign_key_violation
        return missing
    return taken


def _translate_sqlite(error: sqlite3.Error) -> RunnerError:
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)  # absent: the module's own
    if code in SQLITE_FULL_EXTENDED:
        return StoreFullError(f"the store's disk is full: {error}")
    kind = SQLITE_ERRORS.get(code & 0xFF, StoreError)  # the low byte is the primary code
    if kind is StoreFullError:
        return StoreFullError(f"the store's disk is full: {error}")
    return kind(f"the store refuses or failed: {error}")
