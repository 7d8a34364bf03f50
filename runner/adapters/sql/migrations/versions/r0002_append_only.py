"""The database itself refuses to change or remove an item, and to change evidence or snapshots."""

from alembic import op

revision = "0002"
down_revision = "0001"

_SQLITE = (
    """
    CREATE TRIGGER items_in_sequence BEFORE INSERT ON items
    WHEN NEW.seq <> 1 + coalesce(
            (SELECT max(seq) FROM items WHERE session_id = NEW.session_id), 0)
      OR NEW.prev <> coalesce(
            (SELECT hash FROM items WHERE session_id = NEW.session_id ORDER BY seq DESC LIMIT 1),
            '')
      OR EXISTS (SELECT 1 FROM items WHERE message_id = NEW.message_id)
    BEGIN SELECT raise(ABORT, 'an item must continue its rollout'); END
    """,
    """
    CREATE TRIGGER items_keep BEFORE UPDATE ON items
    BEGIN SELECT raise(ABORT, 'rollout items are append-only'); END
    """,
    """
    CREATE TRIGGER items_stay BEFORE DELETE ON items
    BEGIN SELECT raise(ABORT, 'rollout items are append-only'); END
    """,
    """
    CREATE TRIGGER evidence_keep BEFORE UPDATE ON evidence
    BEGIN SELECT raise(ABORT, 'evidence is immutable'); END
    """,
    """
    CREATE TRIGGER snapshots_keep BEFORE UPDATE ON snapshots
    BEGIN SELECT raise(ABORT, 'snapshots are immutable'); END
    """,
)

_POSTGRESQL = (
    """
    CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN RAISE EXCEPTION '% is immutable', TG_TABLE_NAME
        USING ERRCODE = 'integrity_constraint_violation';
    END $$
    """,
    """
    CREATE FUNCTION refuse_gap() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE last_seq integer := 0; last_hash text := '';
    BEGIN
        SELECT seq, hash INTO last_seq, last_hash FROM items
            WHERE session_id = NEW.session_id ORDER BY seq DESC LIMIT 1;
        IF NEW.seq <> coalesce(last_seq, 0) + 1 OR NEW.prev <> coalesce(last_hash, '') THEN
            RAISE EXCEPTION 'an item must continue its rollout'
                USING ERRCODE = 'integrity_constraint_violation';
        END IF;
        RETURN NEW;
    END $$
    """,
    """
    CREATE TRIGGER items_in_sequence BEFORE INSERT ON items
        FOR EACH ROW EXECUTE FUNCTION refuse_gap()
    """,
    """
    CREATE TRIGGER items_keep BEFORE UPDATE OR DELETE ON items
        FOR EACH ROW EXECUTE FUNCTION refuse_change()
    """,
    """
    CREATE TRIGGER items_stay BEFORE TRUNCATE ON items
        FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()
    """,
    """
    CREATE TRIGGER evidence_keep BEFORE UPDATE ON evidence
        FOR EACH ROW EXECUTE FUNCTION refuse_change()
    """,
    """
    CREATE TRIGGER snapshots_keep BEFORE UPDATE ON snapshots
        FOR EACH ROW EXECUTE FUNCTION refuse_change()
    """,
)

_STATEMENTS = {"sqlite": _SQLITE, "postgresql": _POSTGRESQL}


def upgrade() -> None:
    """Make the triggers."""
    for statement in _STATEMENTS[op.get_bind().dialect.name]:
        op.execute(statement)
