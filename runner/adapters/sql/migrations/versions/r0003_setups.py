"""What a setup left, by its key; and what became of a run's setup."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

_KEEP = {
    "sqlite": """
    CREATE TRIGGER setups_keep BEFORE UPDATE ON setups
    BEGIN SELECT raise(ABORT, 'setups are immutable'); END
    """,
    "postgresql": """
    CREATE TRIGGER setups_keep BEFORE UPDATE ON setups
        FOR EACH ROW EXECUTE FUNCTION refuse_change()
    """,
}


def upgrade() -> None:
    """Make the table with its trigger, and the column."""
    op.create_table(
        "setups",
        sa.Column("setup_key", sa.Text, primary_key=True),
        sa.Column("snapshot_id", sa.Text, sa.ForeignKey("snapshots.snapshot_id"), nullable=False),
        sa.Column("log", sa.Text, sa.ForeignKey("evidence.evidence_id"), nullable=False),
        sa.Column("created_at", sa.Text, nullable=False),
    )
    op.execute(_KEEP[op.get_bind().dialect.name])
    op.add_column("runs", sa.Column("setup", sa.Text))
