"""The first tables."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

_ORDINAL = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

_LIVE = "state IN ('queued', 'running', 'waiting', 'awaiting_approval', 'needs_attention')"


def upgrade() -> None:
    """Make the tables."""
    _make_work()
    _make_ledger()
    _make_blobs()


def _make_work() -> None:
    op.create_table(
        "batches",
        sa.Column("ordinal", _ORDINAL, primary_key=True),
        sa.Column("batch_id", sa.Text, nullable=False, unique=True),
        sa.Column("spec", sa.Text, nullable=False),
        sa.Column("results_dir", sa.Text, nullable=False),
        sa.Column("created_at", sa.Text, nullable=False),
        sa.Column("cancelled_at", sa.Text),
    )
    op.create_table(
        "tasks",
        sa.Column("ordinal", _ORDINAL, primary_key=True),
        sa.Column("task_id", sa.Text, nullable=False, unique=True),
        sa.Column("batch_id", sa.Text, sa.ForeignKey("batches.batch_id"), nullable=False),
        sa.Column("session_id", sa.Text, nullable=False, unique=True),
        sa.Column("position", sa.Integer, nullable=False),
        sa.Column("spec", sa.Text, nullable=False),
        sa.Column("created_at", sa.Text, nullable=False),
        sa.Column("cancelled_at", sa.Text),
        sa.Column("parent_task_id", sa.Text, sa.ForeignKey("tasks.task_id")),
        sa.Column("fork_message_id", sa.Text, nullable=False),
    )
    op.create_index("ix_tasks_batch_id", "tasks", ["batch_id"])
    op.create_table(
        "runs",
        sa.Column("ordinal", _ORDINAL, primary_key=True),
        sa.Column("run_id", sa.Text, nullable=False, unique=True),
        sa.Column("task_id", sa.Text, sa.ForeignKey("tasks.task_id"), nullable=False),
        sa.Column("batch_id", sa.Text, sa.ForeignKey("batches.batch_id"), nullable=False),
        sa.Column("session_id", sa.Text, sa.ForeignKey("tasks.session_id"), nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("outcome", sa.Text),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("created_at", sa.Text, nullable=False),
        sa.Column("started_at", sa.Text),
        sa.Column("ended_at", sa.Text),
        sa.Column("usage", sa.Text, nullable=False),
        sa.Column("verify_before", sa.Text),
        sa.Column("verify_after", sa.Text),
        sa.Column("verify_milliseconds", sa.BigInteger, nullable=False),
        sa.Column("items", sa.Integer, nullable=False),
        sa.Column("head", sa.Text, nullable=False),
        sa.UniqueConstraint("task_id", "number", name="one_run_of_a_number"),
    )
    op.create_index("ix_runs_state", "runs", ["state"])
    op.create_index(
        "one_live_run",
        "runs",
        ["session_id"],
        unique=True,
        sqlite_where=sa.text(_LIVE),
        postgresql_where=sa.text(_LIVE),
    )


def _make_ledger() -> None:
    op.create_table(
        "leases",
        sa.Column("run_id", sa.Text, sa.ForeignKey("runs.run_id"), primary_key=True),
        sa.Column("token", sa.BigInteger, nullable=False),
        sa.Column("holder", sa.Text),
        sa.Column("expires_at", sa.Text, nullable=False),
    )
    op.create_table(
        "executions",
        sa.Column("ordinal", _ORDINAL, primary_key=True),
        sa.Column("session_id", sa.Text, nullable=False),
        sa.Column("run_id", sa.Text, sa.ForeignKey("runs.run_id"), nullable=False),
        sa.Column("call_id", sa.Text, nullable=False),
        sa.Column("tool", sa.Text, nullable=False),
        sa.Column("arguments_digest", sa.Text, nullable=False),
        sa.Column("action_digest", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("base_snapshot_id", sa.Text),
        sa.Column("result_snapshot_id", sa.Text),
        sa.UniqueConstraint("session_id", "run_id", "call_id", name="one_execution_of_a_call"),
    )
    op.create_table(
        "items",
        sa.Column("session_id", sa.Text, sa.ForeignKey("tasks.session_id"), primary_key=True),
        sa.Column("seq", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("at", sa.Text, nullable=False),
        sa.Column("message_id", sa.Text, unique=True),
        sa.Column("line", sa.LargeBinary, nullable=False),
        sa.Column("hash", sa.Text, nullable=False),
        sa.Column("prev", sa.Text, nullable=False),
        sqlite_with_rowid=False,
    )


def _make_blobs() -> None:
    op.create_table(
        "snapshots",
        sa.Column("snapshot_id", sa.Text, primary_key=True),
        sa.Column("content_id", sa.Text, nullable=False),
        sa.Column("repository_id", sa.Text, nullable=False),
        sa.Column("base_commit", sa.Text, nullable=False),
        sa.Column("history", sa.Text, nullable=False),
        sa.Column("commit_id", sa.Text, nullable=False),
        sa.Column("source_tree", sa.Text, nullable=False),
        sa.Column("full_tree", sa.Text, nullable=False),
        sa.Column("coverage", sa.Text, nullable=False),
    )
    op.create_table(
        "evidence",
        sa.Column("evidence_id", sa.Text, primary_key=True),
        sa.Column("data", sa.LargeBinary, nullable=False),
    )
