"""Brings a database to the newest revision of its tables."""

from __future__ import annotations

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

from runner.errors import StoreUnusableError

_SCRIPTS = "runner.adapters.sql:migrations"


def migrate(connection: Connection, *, to: str = "head") -> None:
    """Upgrade the database, in the transaction that is open on the connection.

    Args:
        connection: one with a write transaction open.
        to: the revision to stop at.

    Raises:
        StoreUnusableError: the database is of a revision that this release does not know.
    """
    config = make_config()
    config.attributes["connection"] = connection
    scripts = ScriptDirectory.from_config(config)
    current = MigrationContext.configure(connection).get_current_revision()
    if current is not None and current not in {one.revision for one in scripts.walk_revisions()}:
        raise StoreUnusableError(
            f"the store is of revision {current!r}, newer than this release of forkyard "
            f"(which knows up to {scripts.get_current_head()!r}); use the newer release"
        )
    if current != scripts.get_current_head():
        command.upgrade(config, to)


def make_config() -> Config:
    """Make the configuration that finds the packaged migrations."""
    config = Config()
    config.set_main_option("script_location", _SCRIPTS)
    return config
