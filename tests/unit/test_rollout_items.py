"""Rollout lines and their text form: what was written is what is read, or it is said where not."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies import CanonicalFormError, canonical_json, digest_bytes
from runner.domain.ids import CallId, MessageId, SessionId
from runner.domain.items import (
    AssistantMessage,
    Event,
    NewItem,
    RolloutItem,
    StoredCall,
    ToolResult,
    ToolStatus,
    UserMessage,
    chain_item,
    parse_line,
)
from runner.domain.rollout import export_lines, read_lines, verify_chain
from runner.domain.text import clean_text
from runner.errors import DamagedRolloutError

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
SESSION = SessionId("s1")

texts = st.text(st.characters(exclude_categories=())).map(lambda text: clean_text(text).text)
calls = st.builds(
    StoredCall,
    call_id=texts.map(CallId),
    provider_call_id=texts,
    name=texts,
    arguments=texts,
)
payloads = st.one_of(
    st.builds(UserMessage, text=texts),
    st.builds(AssistantMessage, text=texts, calls=st.tuples(calls), stop=texts),
    st.builds(
        ToolResult,
        call_id=texts.map(CallId),
        status=st.sampled_from(ToolStatus),
        text=texts,
        total_bytes=st.integers(0, 2**60),
    ),
    st.builds(Event, name=texts, detail=texts),
)
news = st.builds(NewItem, payload=payloads, message_id=st.none() | texts.map(MessageId))
instants = st.datetimes(
    min_value=datetime(1970, 1, 1),  # noqa: DTZ001  the strategy adds the zone
    timezones=st.sampled_from([UTC, timezone(timedelta(hours=5, minutes=30))]),
)


def chain(items: list[NewItem], *, at: datetime = NOON) -> list[RolloutItem]:
    chained: list[RolloutItem] = []
    for new in items:
        prev = chained[-1].hash if chained else ""
        chained.append(chain_item(new, seq=len(chained) + 1, at=at, prev=prev))
    return chained


def say(*words: str) -> list[RolloutItem]:
    return chain([NewItem(payload=UserMessage(text=word)) for word in words])


def reseal(line: bytes, **changes: object) -> bytes:
    """Return a line with changes and a hash that fits them."""
    raw = {**json.loads(line), **changes}
    del raw["hash"]
    return canonical_json({**raw, "hash": digest_bytes(canonical_json(raw))})


@settings(max_examples=50)
@given(news, instants)
def test_a_line_gives_its_item_back(new, at):
    item = chain_item(new, seq=7, at=at, prev="sha256:6")

    assert parse_line(item.to_line(), session_id=SESSION, seq=7) == item
    assert item.at == at
    assert item.kind is new.payload.kind


@settings(max_examples=50)
@given(news)
def test_a_line_is_canonical_and_holds_no_line_feed(new):
    line = chain_item(new, seq=1, at=NOON, prev="").to_line()

    assert b"\n" not in line
    assert canonical_json(json.loads(line)) == line


@settings(max_examples=100)
@given(st.data())
def test_any_changed_byte_of_a_line_is_found(data):
    line = say("grün")[0].to_line()
    place = data.draw(st.integers(0, len(line) - 1))
    flip = data.draw(st.integers(1, 255))
    changed = line[:place] + bytes([line[place] ^ flip]) + line[place + 1 :]

    with pytest.raises(DamagedRolloutError):
        parse_line(changed, session_id=SESSION, seq=1)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b"", "not a rollout item"),
        (b"[]", "not a rollout item"),
        (b"null", "not a rollout item"),
        (b"{}", "schema"),
        (b"\xff\xfe{\0}\0", "not a rollout item"),
        (b"[" * 100_000, "not a rollout item"),
        (b"\0" * 40, "not a rollout item"),
    ],
)
def test_what_is_no_item_is_damage(line, problem):
    with pytest.raises(DamagedRolloutError, match=problem):
        parse_line(line, session_id=SESSION, seq=1)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"schema": 2}, "schema 2 is newer than ours"),
        ({"schema": "1"}, "schema"),
        ({"seq": 2}, "seq 2 stands where 1 belongs"),
        ({"kind": "event"}, "kind"),
        ({"at": "yesterday"}, "does not match"),
        ({"payload": {"kind": "user_message", "text": "a", "more": 1}}, "more"),
        ({"payload": {"kind": "from_the_future"}}, "from_the_future"),
        ({"payload": {"kind": "user_message", "text": 1}}, "text"),
        ({"message_id": 7}, "message_id"),
        ({"prev": None}, "prev"),
        ({"new_key": 1}, "new_key"),
    ],
)
def test_a_line_with_a_fitting_hash_must_still_be_an_item(changes, problem):
    line = reseal(say("a")[0].to_line(), **changes)

    with pytest.raises(DamagedRolloutError, match=problem):
        parse_line(line, session_id=SESSION, seq=1)


@pytest.mark.parametrize(
    "change",
    [
        (b'"seq":1', b'"seq": 1'),
        (b'"seq":1', b'"seq":1.0'),
        (b'"seq":1', b'"seq":true'),
        (b'"text":"a"', b'"text":"\\u0061"'),
        (b'"schema":1', b'"schema":1,"schema":1'),
        (b'"seq":1', b'"seq":NaN'),
        (b'"text":"a"', b'"text":"\\ud800"'),
    ],
)
def test_another_spelling_of_the_same_line_is_damage(change):
    line = say("a")[0].to_line()

    with pytest.raises(DamagedRolloutError):
        parse_line(line.replace(*change), session_id=SESSION, seq=1)


def test_an_older_line_without_a_later_field_keeps_its_bytes():
    old = reseal(
        chain([NewItem(payload=Event(name="run.started"))])[0].to_line(),
        payload={"kind": "event", "name": "run.started"},
    )

    item = parse_line(old, session_id=SESSION, seq=1)

    assert item.payload == Event(name="run.started")
    assert item.to_line() == old


def test_s12_a_lone_surrogate_never_enters():
    with pytest.raises(CanonicalFormError):
        say("\ud800")


# --- the text form ---------------------------------------------------------------------------


@settings(max_examples=30)
@given(st.lists(news, max_size=5))
def test_what_is_exported_is_read_back(items):
    chained = chain(items)

    read = read_lines(export_lines(chained), SESSION)

    assert list(read.items) == chained
    assert read.torn_bytes == 0


def test_s07_s08_wherever_the_last_line_is_cut_only_it_is_missing():
    chained = say("one", "two", "grün \N{GREEK SMALL LETTER ALPHA}")
    whole = export_lines(chained)
    start = len(export_lines(chained[:2]))

    for end in range(start + 1, len(whole) - 1):
        read = read_lines(whole[:end], SESSION)
        assert list(read.items) == chained[:2]
        assert read.torn_bytes == end - start


def test_a_whole_last_line_without_its_line_feed_is_kept():
    chained = say("one", "two")

    read = read_lines(export_lines(chained)[:-1], SESSION)

    assert list(read.items) == chained
    assert read.torn_bytes == 0


def test_s11_any_changed_byte_before_the_last_line_is_found_with_its_offset():
    chained = say("one", "two", "three")
    data = export_lines(chained)
    second = len(export_lines(chained[:1]))
    third = len(export_lines(chained[:2]))

    for place in range(second, third):
        changed = data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]
        with pytest.raises(DamagedRolloutError, match=f"item 2 at byte {second}") as caught:
            read_lines(changed, SESSION)
        assert (caught.value.seq, caught.value.offset) == (2, second)


def test_s11_a_damaged_last_line_with_its_line_feed_is_damage_and_not_torn():
    data = export_lines(say("one", "two")).replace(b'"two"', b'"twx"')

    with pytest.raises(DamagedRolloutError, match="hash"):
        read_lines(data, SESSION)


def test_s15_separators_of_unicode_do_not_end_a_line():
    chained = say("a\u2028b\u0085c\x0bd\x1ce\r\nf")

    assert list(read_lines(export_lines(chained), SESSION).items) == chained


@pytest.mark.parametrize("order", [[1, 0], [0, 2], [0, 0, 1], [1, 2]])
def test_lines_that_were_moved_removed_or_repeated_are_found(order):
    chained = say("one", "two", "three")

    with pytest.raises(DamagedRolloutError):
        read_lines(export_lines([chained[index] for index in order]), SESSION)


def test_a_line_of_another_history_is_found():
    ours, theirs = say("one", "two"), say("other", "two")

    with pytest.raises(DamagedRolloutError, match="does not continue"):
        verify_chain([ours[0], theirs[1]], session_id=SESSION)


def test_a_part_of_a_chain_is_verified_from_where_it_starts():
    chained = say("one", "two", "three")

    verify_chain(chained[1:], session_id=SESSION, after=1, head=chained[0].hash)

    with pytest.raises(DamagedRolloutError, match="seq 2 stands where 1 belongs"):
        verify_chain(chained[1:], session_id=SESSION)
