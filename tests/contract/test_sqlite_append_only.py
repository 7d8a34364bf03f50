"""SQLite itself refuses to change a rollout, and reading notices what got past it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from store_builders import NOON, SESSION, add_task_with_run, make_setup, make_snapshot, said

from policies import digest_bytes
from runner.adapters.sql import SqlStore, open_sql_store
from runner.errors import DamagedRolloutError, StoreError


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqlStore]:
    with open_sql_store(f"sqlite:///{path}") as opened:
        add_task_with_run(opened)
        with opened.write() as writer:
            news = [said(f"item {number}", message_id=f"m{number}") for number in range(1, 6)]
            writer.append_items(SESSION, news, at=NOON)
            writer.put_evidence(b"log")
            writer.add_snapshot(make_snapshot())
            writer.add_setup(make_setup())
        yield opened


@pytest.fixture
def plain(store: SqlStore, path: Path) -> Iterator[sqlite3.Connection]:
    """Plain SQL, as anyone with the file has it: no pragma of ours is set."""
    connection = sqlite3.connect(path, isolation_level=None)
    yield connection
    connection.close()


COPY = (
    "INTO items (session_id, kind, at, line, seq, message_id, hash, prev)"
    " SELECT session_id, kind, at, line,"
)
FROM_3 = "FROM items WHERE seq = 3"
FROM_5 = "FROM items WHERE seq = 5"


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE items SET line = x'00' WHERE seq = 3",
        "UPDATE OR REPLACE items SET seq = 2 WHERE seq = 3",
        "DELETE FROM items WHERE seq = 5",
        "DELETE FROM items",
        f"REPLACE {COPY} 3, 'new', 'h', prev {FROM_3}",
        f"REPLACE {COPY} 6, 'm3', 'h', hash {FROM_5}",
        f"INSERT {COPY} 7, 'new', 'h', hash {FROM_5}",
        f"INSERT {COPY} 6, 'new', 'h', prev {FROM_5}",
        f"INSERT {COPY} 0, 'new', 'h', '' {FROM_5}",
        "UPDATE evidence SET data = x'00'",
        "UPDATE snapshots SET full_tree = ''",
        "UPDATE setups SET snapshot_id = 'sha256:other'",
    ],
)
def test_plain_sql_cannot_change_what_was_written(store, plain, statement):
    with pytest.raises(sqlite3.IntegrityError):
        plain.execute(statement)

    with store.read() as reader:
        assert [item.payload.text for item in reader.list_items(SESSION)] == [
            f"item {number}" for number in range(1, 6)
        ]


def test_a_hidden_row_number_gives_no_way_round(plain):
    with pytest.raises(sqlite3.OperationalError, match="rowid"):
        plain.execute("SELECT rowid FROM items")


@pytest.mark.parametrize(
    ("change", "seq"),
    [
        ("UPDATE items SET line = replace(line, 'item 3', 'item 9') WHERE seq = 3", 3),
        ("UPDATE items SET line = CAST(replace(line, '3', '4') AS BLOB) WHERE seq = 3", 3),
        ("UPDATE items SET hash = 'x' WHERE seq = 3", 3),
        ("UPDATE items SET message_id = 'other' WHERE seq = 3", 3),
        ("UPDATE items SET prev = '' WHERE seq = 3", 3),
        ("DELETE FROM items WHERE seq = 3", 3),
        ("DELETE FROM items WHERE seq = 1", 1),
    ],
)
def test_s11_damage_in_the_middle_is_loud_and_names_its_place(store, plain, change, seq):
    for trigger in ("items_keep", "items_stay"):
        plain.execute(f"DROP TRIGGER {trigger}")
    plain.execute(change)

    with store.read() as reader, pytest.raises(DamagedRolloutError) as caught:
        reader.list_items(SESSION)

    assert caught.value.seq == seq


def test_a_missing_item_just_before_the_wanted_ones_is_noticed(store, plain):
    plain.execute("DROP TRIGGER items_stay")
    plain.execute("DELETE FROM items WHERE seq = 3")

    with store.read() as reader, pytest.raises(DamagedRolloutError, match="missing"):
        reader.list_items(SESSION, after=3)


def test_damaged_evidence_is_noticed(store, plain):
    plain.execute("DROP TRIGGER evidence_keep")
    plain.execute("UPDATE evidence SET data = x'00'")

    with store.read() as reader, pytest.raises(StoreError, match="not what was kept"):
        reader.get_evidence(digest_bytes(b"log"))
