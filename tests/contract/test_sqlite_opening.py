"""How the SQLite file is opened: durable, private, migrated, and only where it is safe."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import URL, Connection, inspect, text
from store_builders import NOON, RUN, SESSION, add_task_with_run, said

from runner.adapters.sql import open_sql_store
from runner.adapters.sql.engine import for_writes, make_sqlite_engine
from runner.adapters.sql.migrate import migrate
from runner.adapters.sql.schema import metadata
from runner.domain.ids import SetupKey
from runner.domain.outcome import RunState
from runner.errors import StoreBusyError, StoreUnusableError


def url_of(path: Path) -> str:
    return f"sqlite:///{path}"


def ask(connection: Connection, pragma: str) -> object:
    return connection.execute(text(f"PRAGMA {pragma}")).scalar()


@pytest.mark.parametrize(
    ("pragma", "value"),
    [
        ("journal_mode", "wal"),
        ("synchronous", 2),  # FULL
        ("foreign_keys", 1),
        ("busy_timeout", 30_000),
        ("recursive_triggers", 1),
    ],
)
def test_every_connection_is_set_up_durable_and_strict(tmp_path, pragma, value):
    with open_sql_store(url_of(tmp_path / "store.db")) as store:
        with store.read() as one, store.read() as other:
            assert ask(one._connection, pragma) == value
            assert ask(other._connection, pragma) == value
        with store.write() as writer:
            assert ask(writer._connection, pragma) == value


def test_the_file_is_private(tmp_path):
    path = tmp_path / "store.db"

    with open_sql_store(url_of(path)) as store:
        add_task_with_run(store)

        modes = {one.name: one.stat().st_mode & 0o777 for one in path.parent.iterdir()}
    assert modes == {"store.db": 0o600, "store.db-wal": 0o600, "store.db-shm": 0o600}


def test_a_file_that_others_could_read_is_made_private(tmp_path):
    path = tmp_path / "store.db"
    path.touch(mode=0o644)

    open_sql_store(url_of(path)).close()

    assert path.stat().st_mode & 0o777 == 0o600


def test_a_folder_that_is_not_there_is_never_made(tmp_path):
    with pytest.raises(StoreUnusableError, match=r"no folder .*/away'; make it"):
        open_sql_store(url_of(tmp_path / "away" / "store.db"))

    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_others_may_write_to_is_refused(tmp_path):
    tmp_path.chmod(0o777)

    with pytest.raises(StoreUnusableError, match="others may write"):
        open_sql_store(url_of(tmp_path / "store.db"))


@pytest.mark.parametrize(
    "url",
    [
        "",
        "nonsense",
        "sqlite://",
        "sqlite:///relative.db",
        "sqlite:////x.db?mode=ro",
        "postgresql://host/db",
    ],
)
def test_a_url_without_a_database_file_is_refused(url):
    with pytest.raises(StoreUnusableError):
        open_sql_store(url)


def test_a_file_that_is_no_database_is_refused_and_left_alone(tmp_path):
    path = tmp_path / "store.db"
    path.write_bytes(b"not a database at all\n" * 100)

    with pytest.raises(StoreUnusableError, match="not a database"):
        open_sql_store(url_of(path))

    assert path.read_bytes() == b"not a database at all\n" * 100


def test_s05_no_connection_is_held_between_transactions(tmp_path):
    with open_sql_store(url_of(tmp_path / "store.db")) as store:
        add_task_with_run(store)
        with store.read() as reader:
            reader.list_batches()
        with pytest.raises(ZeroDivisionError), store.write():
            1 / 0  # noqa: B018

        assert store._engine.pool.checkedout() == 0


def test_s05_forty_views_at_once_wait_for_no_connection(tmp_path):
    with open_sql_store(url_of(tmp_path / "store.db")) as store:
        views = [store.read() for _ in range(40)]
        for view in views:
            view.__enter__()
        for view in views:
            view.__exit__(None, None, None)

        assert store._engine.pool.checkedout() == 0


def test_s02_a_write_that_reads_first_never_loses_to_another_writer(tmp_path):
    path = tmp_path / "store.db"
    with open_sql_store(url_of(path)) as ours:
        add_task_with_run(ours)
        other = sqlite3.connect(path, timeout=0, isolation_level=None)
        with ours.write() as writer:
            writer.count_items(SESSION)

            with pytest.raises(sqlite3.OperationalError, match="locked"):
                other.execute("BEGIN IMMEDIATE")
            writer.append_items(SESSION, [said()], at=NOON)
        other.close()

        with ours.read() as reader:
            assert reader.count_items(SESSION)[0] == 1


def test_a_store_that_others_keep_locked_is_busy(tmp_path):
    path = tmp_path / "store.db"
    with open_sql_store(url_of(path)) as store:
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with store.read() as reader:
            reader._connection.execute(text("PRAGMA busy_timeout = 1"))

        with pytest.raises(StoreBusyError, match="locked"), store.write():
            pass
        other.close()


def test_a_fresh_database_has_the_tables_of_the_schema(tmp_path):
    path = tmp_path / "store.db"
    open_sql_store(url_of(path)).close()
    engine = make_sqlite_engine(path)

    with engine.connect() as connection:
        differences = compare_metadata(MigrationContext.configure(connection), metadata)
        live = connection.execute(
            text("SELECT sql FROM sqlite_master WHERE name = 'one_live_run'")
        ).scalar()
        columns = {
            table.name: [column["name"] for column in inspect(connection).get_columns(table.name)]
            for table in metadata.tables.values()
        }
    engine.dispose()

    assert differences == []
    assert "WHERE state IN ('queued', 'running', 'waiting'" in str(live)
    assert columns == {name: list(table.c.keys()) for name, table in metadata.tables.items()}


def test_the_migrations_make_the_statements_of_the_schema(tmp_path):
    migrated, made = tmp_path / "migrated.db", tmp_path / "made.db"
    open_sql_store(url_of(migrated)).close()
    engine = make_sqlite_engine(made)
    metadata.create_all(engine)
    engine.dispose()

    assert table_sql(migrated) == table_sql(made)


def table_sql(path: Path) -> dict[str, list[str]]:
    """Return the definition of each table: its parts, in any order: a column may come later."""
    connection = sqlite3.connect(path)
    rows = connection.execute(
        "SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL AND type IN ('table', 'index')"
        " AND name NOT IN ('alembic_version', 'sqlite_sequence')"
    ).fetchall()
    connection.close()
    return {name: sorted(part.strip(" \t\n()") for part in sql.split(",")) for name, sql in rows}


def test_a_database_of_the_first_revision_is_upgraded_with_its_rows(tmp_path):
    path = tmp_path / "store.db"
    engine = make_sqlite_engine(path)
    with for_writes(engine).begin() as connection:
        migrate(connection, to="0001")
        for table in ("batches", "tasks", "items"):
            connection.execute(text(OLD_ROWS[table]))
    engine.dispose()

    with open_sql_store(url_of(path)) as store, store.read() as reader:
        assert reader.count_items(SESSION) == (1, "sha256:old")
    plain = sqlite3.connect(path)
    with pytest.raises(sqlite3.IntegrityError, match="append-only"):
        plain.execute("DELETE FROM items")
    plain.close()


OLD_ROWS = {
    "batches": "INSERT INTO batches VALUES (1, 'b1', '{}', '/r', '2026', NULL)",
    "tasks": "INSERT INTO tasks VALUES (1, 't1', 'b1', 's1', 0, '{}', '2026', NULL, NULL, '')",
    "items": "INSERT INTO items VALUES ('s1', 1, 'event', '2026', NULL, x'00', 'sha256:old', '')",
}


def test_a_database_of_the_second_revision_gets_setups_and_keeps_its_runs(tmp_path):
    path = tmp_path / "store.db"
    engine = make_sqlite_engine(path)
    with for_writes(engine).begin() as connection:
        migrate(connection, to="0002")
        for row in OLD_WORK:
            connection.execute(text(row))
    engine.dispose()

    with open_sql_store(url_of(path)) as store, store.read() as reader:
        run = reader.get_run(RUN)
        assert (run.state, run.setup) == (RunState.QUEUED, None)
        assert reader.find_setup(SetupKey("k")) is None


OLD_WORK = (
    OLD_ROWS["batches"],
    OLD_ROWS["tasks"],
    """
    INSERT INTO runs VALUES (1, 'r1', 't1', 'b1', 's1', 1, 'queued', '', NULL, 0,
        '2026-11-30T12:00:00.000000Z', NULL, NULL, '{}', NULL, NULL, 0, 0, '')
    """,
)


def test_opening_again_keeps_everything(tmp_path):
    url = url_of(tmp_path / "store.db")
    with open_sql_store(url) as store:
        add_task_with_run(store)

    with open_sql_store(url) as store, store.read() as reader:
        assert len(reader.list_tasks()) == 1


def test_a_path_may_hold_any_character(tmp_path):
    folder = tmp_path / "a b%20#\N{SNOWMAN}"
    folder.mkdir(mode=0o700)

    url = URL.create("sqlite", database=str(folder / "store.db")).render_as_string()
    open_sql_store(url).close()

    assert [one.name for one in folder.iterdir()] == ["store.db"]


def test_a_database_of_a_newer_release_is_refused_and_left_alone(tmp_path):
    path = tmp_path / "store.db"
    open_sql_store(url_of(path)).close()
    plain = sqlite3.connect(path)
    plain.execute("UPDATE alembic_version SET version_num = '9999'")
    plain.commit()
    plain.close()

    with pytest.raises(StoreUnusableError, match="'9999', newer than this release"):
        open_sql_store(url_of(path))
