"""What every store promises about rollouts and the ledger of executions."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from store_builders import (
    CALL,
    LATER,
    NOON,
    RUN,
    SESSION,
    add_task_with_run,
    make_execution,
    said,
)

from policies import CanonicalFormError
from runner.domain.ids import CallId, SessionId
from runner.domain.items import NewItem, UserMessage
from runner.domain.records import ExecutionState
from runner.errors import ConflictError, StaleVersionError


def test_items_are_chained_across_appends_and_come_back_as_placed(filled):
    with filled.write() as writer:
        first = writer.append_items(SESSION, [said("a", message_id="m1"), said("b")], at=NOON)
    with filled.write() as writer:
        second = writer.append_items(SESSION, [said("c")], at=LATER)

    placed = [*first, *second]
    assert [item.seq for item in placed] == [1, 2, 3]
    assert [item.prev for item in placed] == ["", placed[0].hash, placed[1].hash]
    with filled.read() as reader:
        assert list(reader.list_items(SESSION)) == placed
        assert list(reader.list_items(SESSION, after=2)) == placed[2:]
        assert list(reader.list_items(SESSION, after=9)) == []
        assert reader.count_items(SESSION) == (3, placed[2].hash)


def test_a_transaction_sees_what_it_appended(filled):
    with filled.write() as writer:
        writer.append_items(SESSION, [said("a")], at=NOON)

        placed = writer.append_items(SESSION, [said("b")], at=NOON)

        assert placed[0].seq == 2
        assert len(writer.list_items(SESSION)) == 2


def test_a_session_without_items_is_empty(filled):
    with filled.read() as reader:
        assert list(reader.list_items(SESSION)) == []
        assert reader.count_items(SESSION) == (0, "")


def test_appending_nothing_changes_nothing(filled):
    with filled.write() as writer:
        assert list(writer.append_items(SESSION, [], at=NOON)) == []


def test_a_message_id_is_used_once_in_all_sessions(filled):
    add_task_with_run(filled, 2)
    with filled.write() as writer:
        writer.append_items(SESSION, [said(message_id="m1")], at=NOON)

    with pytest.raises(ConflictError, match="message id"), filled.write() as writer:
        writer.append_items(SessionId("s2"), [said(message_id="m1")], at=NOON)

    with filled.read() as reader:
        assert reader.count_items(SessionId("s2")) == (0, "")


def test_eight_threads_appending_to_one_session_leave_no_gap(filled):
    def append(number: int) -> None:
        with filled.write() as writer:
            writer.append_items(SESSION, [said(str(number))], at=NOON)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(append, range(40)))

    with filled.read() as reader:
        items = reader.list_items(SESSION)
    assert sorted(int(item.payload.text) for item in items) == list(range(40))


def test_a_naive_instant_is_refused(filled):
    with pytest.raises(ValueError, match="naive"), filled.write() as writer:
        writer.append_items(SESSION, [said()], at=NOON.replace(tzinfo=None))


def test_a_call_has_one_execution(filled):
    with filled.write() as writer:
        writer.add_execution(make_execution())

    with pytest.raises(ConflictError, match="c1"), filled.write() as writer:
        writer.add_execution(make_execution(arguments_digest="sha256:bb"))


def test_the_ledger_is_listed_oldest_first(filled):
    with filled.write() as writer:
        for name in ("z", "a", "m"):
            writer.add_execution(make_execution(call_id=CallId(name)))

    with filled.read() as reader:
        assert [one.call_id for one in reader.list_executions(SESSION)] == ["z", "a", "m"]
        assert reader.find_execution(SESSION, RUN, CallId("q")) is None


def test_an_execution_moves_on_from_the_expected_state_alone(filled):
    started = make_execution(state=ExecutionState.STARTED, attempt=1)
    with filled.write() as writer:
        writer.add_execution(make_execution())
        writer.save_execution(started, expected=ExecutionState.REQUESTED)

    with pytest.raises(StaleVersionError, match="found started"), filled.write() as writer:
        writer.save_execution(started, expected=ExecutionState.REQUESTED)

    with filled.read() as reader:
        assert reader.find_execution(SESSION, RUN, CALL) == started


def test_an_execution_keeps_the_arguments_it_was_asked_with(filled):
    with filled.write() as writer:
        writer.add_execution(make_execution())

    with pytest.raises(ConflictError, match="other arguments"), filled.write() as writer:
        writer.save_execution(
            make_execution(arguments_digest="sha256:bb", state=ExecutionState.STARTED),
            expected=ExecutionState.REQUESTED,
        )


def test_what_has_started_is_never_denied(filled):
    with filled.write() as writer:
        writer.add_execution(make_execution(state=ExecutionState.STARTED))

    with pytest.raises(ConflictError, match="cannot become denied"), filled.write() as writer:
        writer.save_execution(
            make_execution(state=ExecutionState.DENIED), expected=ExecutionState.STARTED
        )


def test_s12_a_lone_surrogate_that_was_not_cleaned_stops_the_append_whole(filled):
    with pytest.raises(CanonicalFormError), filled.write() as writer:
        writer.append_items(SESSION, [said("fine"), said("\ud800")], at=NOON)

    with filled.read() as reader:
        assert reader.count_items(SESSION) == (0, "")


def test_s15_separators_of_unicode_are_data(filled):
    text = "a\u2028b\u0085c\x0bd\r\ne\0f"

    with filled.write() as writer:
        writer.append_items(SESSION, [NewItem(payload=UserMessage(text=text))], at=NOON)

    with filled.read() as reader:
        assert reader.list_items(SESSION)[0].payload.text == text
