"""The store on SQL databases."""

from runner.adapters.sql.sql_store import SqlStore, open_sql_store

__all__ = ["SqlStore", "open_sql_store"]
