"""Fixtures that several contract suites use."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from store_builders import (
    add_task_with_run,
)

from runner.adapters.memory_store import MemoryStore
from runner.adapters.sql import open_sql_store
from runner.application.ports.store import Store


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    if request.param == "memory":
        yield MemoryStore()
        return
    with open_sql_store(f"sqlite:///{tmp_path}/store.db") as opened:
        yield opened


@pytest.fixture
def filled(store: Store) -> Store:
    add_task_with_run(store)
    return store
