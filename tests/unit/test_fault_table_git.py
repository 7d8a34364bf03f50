"""The table of git's faults is complete, and names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
TABLE = ROOT / "docs" / "faults-git.md"
ROW = re.compile(r"^\| (G\d\d) .*\|(.*)\|$", re.MULTILINE)


def test_every_fault_has_a_row_with_tests_that_exist() -> None:
    sources = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    known = set(re.findall(r"^def (test_\w+)\(", sources, re.MULTILINE))

    rows = ROW.findall(TABLE.read_text())

    assert [name for name, _ in rows] == [f"G{number:02}" for number in range(1, 34)]
    for name, tests in rows:
        named = re.findall(r"`(test_\w+)`", tests)
        assert named, name
        assert set(named) <= known, (name, set(named) - known)
