"""The table of cases names tests that exist, and a test for each case that is due."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

HERE = Path(__file__).parent
DUE = {
    *range(1, 6),
    *(7, 9, 10, 11, 12, 13),
    *range(15, 23),
    *(24, 25, 26, 28, 29, 32, 34, 36, 37, 39, 46, 47, 64),
}


@pytest.fixture(scope="module")
def table():
    lines = (HERE / "CASES.md").read_text().splitlines()
    return [line.strip("| ").split(" | ") for line in lines if line.startswith("|")][2:]


def test_every_case_that_is_due_has_a_test(table):
    rows = {int(number): row for row in table for number in re.findall(r"\d+", row[0])}

    assert set(rows) == DUE
    assert [number for number, row in rows.items() if "`test_" not in row[2]] == []


def test_every_test_that_is_named_exists(table):
    named = {name for row in table for name in re.findall(r"`(test_\w+)`", " ".join(row))}
    sources = [one.read_text() for one in HERE.parent.rglob("test_*.py")]
    definition = re.compile(r"^def (test_\w+)", re.MULTILINE)
    defined = {name for text in sources for name in definition.findall(text)}

    assert named - defined == set()
