"""Rows hold every field of their records, on both databases."""

from __future__ import annotations

from dataclasses import fields

import pytest
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.schema import CreateIndex, CreateTable
from store_builders import (
    make_batch,
    make_execution,
    make_run,
    make_setup,
    make_snapshot,
    make_task,
)

from runner.adapters.sql.rows import (
    batch_to_row,
    execution_to_row,
    row_to_batch,
    row_to_execution,
    row_to_run,
    row_to_setup,
    row_to_snapshot,
    row_to_task,
    run_to_row,
    setup_to_row,
    snapshot_to_row,
    task_to_row,
)
from runner.adapters.sql.schema import (
    batches,
    executions,
    metadata,
    runs,
    setups,
    snapshots,
    tasks,
)

PAIRS = [
    (make_batch(), batches, batch_to_row, row_to_batch),
    (make_task(), tasks, task_to_row, row_to_task),
    (make_run(), runs, run_to_row, row_to_run),
    (make_execution(), executions, execution_to_row, row_to_execution),
    (make_setup(), setups, setup_to_row, row_to_setup),
    (make_snapshot(), snapshots, snapshot_to_row, row_to_snapshot),
]


@pytest.mark.parametrize(("record", "table", "to_row", "from_row"), PAIRS)
def test_a_row_has_a_value_for_every_column_and_gives_the_record_back(
    record, table, to_row, from_row
):
    row = to_row(record)

    assert set(row) == set(table.c.keys()) - {"ordinal"}
    assert len(row) == len(fields(record))
    assert from_row(row) == record


@pytest.mark.parametrize(
    "dialect", [sqlite.dialect(), postgresql.dialect()], ids=lambda one: one.name
)
@pytest.mark.parametrize("table", metadata.sorted_tables, ids=lambda one: one.name)
def test_every_table_can_be_said_in_both_dialects(table, dialect):
    statements = [CreateTable(table), *(CreateIndex(index) for index in table.indexes)]

    assert all(str(one.compile(dialect=dialect)) for one in statements)
