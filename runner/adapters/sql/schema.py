"""Tables of the store, as they are after the newest migration.

Portable between SQLite and PostgreSQL. `ordinal` is the order of insertion: it settles the order
of rows of the same instant. Triggers live in the migrations.
"""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import (
    BigInteger,
    Column,
    Dialect,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    TypeDecorator,
    UniqueConstraint,
)

from runner.domain.instant import parse_instant, show_instant
from runner.domain.outcome import TERMINAL_STATES, RunState

LIVE_STATES = tuple(state.value for state in RunState if state not in TERMINAL_STATES)
"""States of a run that has not ended."""


class Instant(TypeDecorator[datetime]):
    """An aware UTC instant, kept as text that sorts by time (`2026-11-30T10:36:37.000000Z`)."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> str | None:  # noqa: ARG002  SQLAlchemy's signature
        """Return the stored text."""
        return None if value is None else show_instant(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002  SQLAlchemy's signature
        """Return the instant."""
        return None if value is None else parse_instant(value)


# SQLite counts up by itself only in a column of exactly the type INTEGER
_Ordinal = BigInteger().with_variant(Integer(), "sqlite")

metadata = MetaData()

batches = Table(
    "batches",
    metadata,
    Column("ordinal", _Ordinal, primary_key=True),
    Column("batch_id", Text, nullable=False, unique=True),
    Column("spec", Text, nullable=False),
    Column("results_dir", Text, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("cancelled_at", Instant),
)

tasks = Table(
    "tasks",
    metadata,
    Column("ordinal", _Ordinal, primary_key=True),
    Column("task_id", Text, nullable=False, unique=True),
    Column("batch_id", Text, ForeignKey("batches.batch_id"), nullable=False, index=True),
    Column("session_id", Text, nullable=False, unique=True),
    Column("position", Integer, nullable=False),
    Column("spec", Text, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("cancelled_at", Instant),
    Column("parent_task_id", Text, ForeignKey("tasks.task_id")),
    Column("fork_message_id", Text, nullable=False),
)

runs = Table(
    "runs",
    metadata,
    Column("ordinal", _Ordinal, primary_key=True),
    Column("run_id", Text, nullable=False, unique=True),
    Column("task_id", Text, ForeignKey("tasks.task_id"), nullable=False),
    Column("batch_id", Text, ForeignKey("batches.batch_id"), nullable=False),
    Column("session_id", Text, ForeignKey("tasks.session_id"), nullable=False),
    Column("number", Integer, nullable=False),
    Column("state", Text, nullable=False, index=True),
    Column("reason", Text, nullable=False),
    Column("outcome", Text),
    Column("attempt", Integer, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("started_at", Instant),
    Column("ended_at", Instant),
    Column("usage", Text, nullable=False),
    Column("verify_before", Text),
    Column("verify_after", Text),
    Column("verify_milliseconds", BigInteger, nullable=False),
    Column("items", Integer, nullable=False),
    Column("head", Text, nullable=False),
    Column("setup", Text),
    UniqueConstraint("task_id", "number", name="one_run_of_a_number"),
)

_live = runs.c.state.in_(LIVE_STATES)
Index(
    "one_live_run",
    runs.c.session_id,
    unique=True,
    sqlite_where=_live,
    postgresql_where=_live,
)

leases = Table(
    "leases",
    metadata,
    Column("run_id", Text, ForeignKey("runs.run_id"), primary_key=True),
    Column("token", BigInteger, nullable=False),
    Column("holder", Text),  # null = given back; the token stays, so that it only grows
    Column("expires_at", Instant, nullable=False),
)

executions = Table(
    "executions",
    metadata,
    Column("ordinal", _Ordinal, primary_key=True),
    Column("session_id", Text, nullable=False),
    Column("run_id", Text, ForeignKey("runs.run_id"), nullable=False),
    Column("call_id", Text, nullable=False),
    Column("tool", Text, nullable=False),
    Column("arguments_digest", Text, nullable=False),
    Column("action_digest", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("base_snapshot_id", Text),
    Column("result_snapshot_id", Text),
    UniqueConstraint("session_id", "run_id", "call_id", name="one_execution_of_a_call"),
)

items = Table(
    "items",
    metadata,
    Column("session_id", Text, ForeignKey("tasks.session_id"), primary_key=True),
    Column("seq", Integer, primary_key=True, autoincrement=False),
    Column("kind", Text, nullable=False),
    Column("at", Instant, nullable=False),
    Column("message_id", Text, unique=True),
    Column("line", LargeBinary, nullable=False),
    Column("hash", Text, nullable=False),
    Column("prev", Text, nullable=False),
    # without it, INSERT OR REPLACE could name a hidden row number and so remove an item
    sqlite_with_rowid=False,
)

snapshots = Table(
    "snapshots",
    metadata,
    Column("snapshot_id", Text, primary_key=True),
    Column("content_id", Text, nullable=False),
    Column("repository_id", Text, nullable=False),
    Column("base_commit", Text, nullable=False),
    Column("history", Text, nullable=False),
    Column("commit_id", Text, nullable=False),
    Column("source_tree", Text, nullable=False),
    Column("full_tree", Text, nullable=False),
    Column("coverage", Text, nullable=False),
)

setups = Table(
    "setups",
    metadata,
    Column("setup_key", Text, primary_key=True),
    Column("snapshot_id", Text, ForeignKey("snapshots.snapshot_id"), nullable=False),
    Column("log", Text, ForeignKey("evidence.evidence_id"), nullable=False),
    Column("created_at", Instant, nullable=False),
)

evidence = Table(
    "evidence",
    metadata,
    Column("evidence_id", Text, primary_key=True),
    Column("data", LargeBinary, nullable=False),
)
