from __future__ import annotations

from decimal import Decimal

import pytest

from runner.adapters.batch_file.document import parse_document, parse_json_document
from runner.errors import BatchFileError


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: on", "on"),
        ("a: no", "no"),
        ("a: 1:30", "1:30"),
        ("a: 2026-11-30", "2026-11-30"),
        ("a: 12", 12),
        ("a: '12'", "12"),
        ("a: 2.50", Decimal("2.50")),
        ("a: 1e3", Decimal(1000)),
        ("a: true", True),
        ("a:", None),
        ("a: ~", None),
        ("a: 0x10", "0x10"),
    ],
)
def test_plain_scalars_follow_the_core_schema(text: str, value: object) -> None:
    assert parse_document(text, file="f").value == {"a": value}


def test_a_key_written_twice_is_a_problem_that_names_both_lines() -> None:
    document = parse_document("a: 1\nb: 2\na: 3\n", file="f.yaml")

    assert [str(one) for one in document.problems] == [
        "f.yaml:3: a: written twice, first on line 1; keep one of the two"
    ]


def test_a_field_is_located_by_its_own_line() -> None:
    document = parse_document("a:\n  - b: 1\n    c: 2\n", file="f")

    assert document.locate(("a", 0, "c")) == (3, "a[0].c")


def test_a_missing_field_is_located_at_its_nearest_ancestor() -> None:
    document = parse_document("x: 1\na:\n  b: 1\n", file="f")

    assert document.locate(("a", "c", "d")) == (2, "a.c.d")


@pytest.mark.parametrize("text", ["a: [", "a: b: c", "\tx", "a: 1\n---\nb: 2\n", "", "# only\n"])
def test_text_that_is_not_one_yaml_document_is_refused(text: str) -> None:
    with pytest.raises(BatchFileError):
        parse_document(text, file="f")


@pytest.mark.slow
def test_aliases_that_multiply_are_stopped() -> None:
    rows = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    rows += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]

    with pytest.raises(BatchFileError, match="too large"):
        parse_document("\n".join(rows), file="f")


def test_a_tag_is_a_problem() -> None:
    document = parse_document("a: !!python/name:os.system x", file="f")

    assert "has no meaning here" in str(document.problems[0])


def test_broken_json_names_its_line() -> None:
    with pytest.raises(BatchFileError, match=r"f.json:2: file: not JSON"):
        parse_json_document('{"a": 1,\n}', file="f.json")
