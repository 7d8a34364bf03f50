"""docs/faults-docker.md names every row, and only tests that exist."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROWS = re.findall(
    r"(?m)^\| (D\d\d) \| (.+?) \| (.+) \|$", (ROOT / "docs/faults-docker.md").read_text()
)


@cache
def list_tests() -> frozenset[str]:
    texts = [file.read_text() for file in (ROOT / "tests").rglob("test_*.py")]
    return frozenset(name for text in texts for name in re.findall(r"(?m)^def (test_\w+)", text))


def test_every_row_is_there_once_and_in_order() -> None:
    assert [row for row, _, _ in ROWS] == [f"D{number:02}" for number in range(1, 38)]


@pytest.mark.parametrize(("row", "held"), [(row, held) for row, _, held in ROWS])
def test_a_row_names_tests_that_exist_or_a_row_that_does(row: str, held: str) -> None:
    named = re.findall(r"`(test_\w+)`", held)

    assert named or re.match(r"as D\d\d", held)
    assert [name for name in named if name not in list_tests()] == []
