"""Text from outside is made fit for every store, and says so."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies import canonical_json
from runner.domain.text import CleanText, clean_text, decode_output

FFFD = "\N{REPLACEMENT CHARACTER}"

any_text = st.text(st.characters(exclude_categories=()))


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("", CleanText("", changed=False)),
        ("plain \U0001f600", CleanText("plain \U0001f600", changed=False)),
        ("a\0b", CleanText(f"a{FFFD}b", changed=True)),
        ("x \ud800 y", CleanText(f"x {FFFD} y", changed=True)),
        ("\udc80\udfff", CleanText(FFFD * 2, changed=True)),
        ("a\u2028b\u0085c\x1b\x7f", CleanText("a\u2028b\u0085c\x1b\x7f", changed=False)),
        (FFFD, CleanText(FFFD, changed=False)),
    ],
)
def test_s12_only_what_no_store_carries_is_replaced(text, clean):
    assert clean_text(text) == clean


@pytest.mark.parametrize(
    ("data", "clean"),
    [
        (b"ok\r\n", CleanText("ok\r\n", changed=False)),
        ("grün".encode(), CleanText("grün", changed=False)),
        (b"a\0b", CleanText(f"a{FFFD}b", changed=True)),
        (b"\xff\0", CleanText(FFFD * 2, changed=True)),
        (b"cut \xc3", CleanText(f"cut {FFFD}", changed=True)),
        (b"x \xed\xa0\x80 y", CleanText(f"x {FFFD * 3} y", changed=True)),
        (FFFD.encode(), CleanText(FFFD, changed=False)),
    ],
)
def test_s06_output_is_decoded_and_cleaned(data, clean):
    assert decode_output(data) == clean


@given(any_text)
def test_clean_text_survives_canonical_json_and_any_other_reader(text):
    clean = clean_text(text).text

    assert json.loads(canonical_json(clean)) == clean
    assert "\0" not in clean
    assert clean_text(clean) == CleanText(clean, changed=False)


@given(st.binary())
def test_any_output_becomes_clean_text(data):
    clean = decode_output(data)

    assert clean_text(clean.text).changed is False
    assert clean.changed is (clean.text.encode() != data)
