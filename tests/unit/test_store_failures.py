"""Every foreign error of the store has one of ours."""

from __future__ import annotations

import sqlite3

import pytest
from sqlalchemy import exc

from runner.adapters.sql.failures import SQLITE_ERRORS, translate, translate_insert
from runner.errors import (
    ConflictError,
    NotFoundError,
    RunnerError,
    StoreBusyError,
    StoreError,
    StoreFullError,
    StoreUnusableError,
)

PRIMARY_CODES = range(1, 27)  # https://sqlite.org/rescode.html: SQLITE_ERROR to SQLITE_NOTADB


def wrap(code: int, *, kind: type[exc.DBAPIError] = exc.OperationalError) -> exc.DBAPIError:
    original = sqlite3.OperationalError("it failed")
    original.sqlite_errorcode = code
    return kind("SELECT 1", {}, original)


def all_subclasses(kind: type) -> set[type]:
    return {kind}.union(*(all_subclasses(one) for one in kind.__subclasses__()))


def test_the_table_names_every_error_code_of_sqlite():
    assert set(SQLITE_ERRORS) == set(PRIMARY_CODES)


@pytest.mark.parametrize("code", PRIMARY_CODES)
def test_each_code_of_sqlite_becomes_an_error_of_ours(code):
    assert isinstance(translate(wrap(code)), (StoreError, ConflictError))


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (sqlite3.SQLITE_BUSY_SNAPSHOT, StoreBusyError),
        (sqlite3.SQLITE_FULL, StoreFullError),
        (sqlite3.SQLITE_IOERR_SHMSIZE, StoreFullError),
        (sqlite3.SQLITE_IOERR_WRITE, StoreError),
        (sqlite3.SQLITE_NOTADB, StoreUnusableError),
        (sqlite3.SQLITE_READONLY_DBMOVED, StoreUnusableError),
        (sqlite3.SQLITE_CONSTRAINT_TRIGGER, ConflictError),
    ],
)
def test_an_extended_code_counts_as_its_primary_one(code, kind):
    assert type(translate(wrap(code))) is kind


@pytest.mark.parametrize(
    "kind", sorted(all_subclasses(exc.DBAPIError), key=lambda one: one.__name__)
)
def test_each_database_error_of_another_driver_becomes_one_of_ours(kind):
    ours = translate(kind("SELECT 1", {}, ValueError("it failed")))

    assert isinstance(ours, StoreError) or (
        isinstance(ours, ConflictError) and kind is exc.IntegrityError
    )
    assert "it failed" in str(ours)


@pytest.mark.parametrize(
    "error",
    [
        exc.TimeoutError("no connection"),
        exc.InvalidRequestError("wrong use"),
        exc.StatementError("wrong value", "SELECT 1", {}, ValueError("naive")),
        sqlite3.ProgrammingError("closed"),
    ],
)
def test_other_foreign_errors_become_ours(error):
    assert isinstance(translate(error), RunnerError)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (sqlite3.SQLITE_CONSTRAINT_FOREIGNKEY, NotFoundError),
        (sqlite3.SQLITE_CONSTRAINT_UNIQUE, ConflictError),
        (sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY, ConflictError),
    ],
)
def test_a_refused_insert_says_whether_something_is_taken_or_missing(code, kind):
    error = wrap(code, kind=exc.IntegrityError)

    ours = translate_insert(error, taken=ConflictError("x"), missing=NotFoundError("task", "t"))

    assert type(ours) is kind
