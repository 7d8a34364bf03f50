"""What every store promises: the double, and SQLite."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta, timezone

import pytest
from store_builders import (
    BATCH,
    CALL,
    LATER,
    NOON,
    RUN,
    SESSION,
    TASK,
    add_task_with_run,
    claim,
    hold,
    make_batch,
    make_execution,
    make_run,
    make_snapshot,
    make_task,
    said,
)

from runner.application.ports.store import StoreReader, StoreWriter
from runner.domain.budget import Usage
from runner.domain.ids import BatchId, EvidenceId, RunId, SessionId, TaskId
from runner.domain.outcome import Outcome, RunState
from runner.domain.records import ExecutionState, VerifyResult
from runner.errors import ConflictError, NotFoundError, StaleVersionError
from sandbox import Coverage, History, LeftOut, SnapshotId


def test_only_the_cancelled_ones_of_the_asked_tasks_are_listed(store):
    with store.write() as writer:
        writer.add_batch(make_batch())
        for name in ("t1", "t2", "t3"):
            writer.add_task(make_task(task_id=TaskId(name), session_id=SessionId(f"s-{name}")))
        writer.cancel_task(TaskId("t1"), NOON)
        writer.cancel_task(TaskId("t3"), NOON)

    with store.read() as view:
        listed = view.list_cancelled([TaskId("t1"), TaskId("t2"), TaskId("nobody")])
        assert set(listed) == {"t1"}
        assert set(view.list_cancelled([])) == set()


def test_a_batch_comes_back_as_it_was_stored(store):
    batch = make_batch(cancelled_at=LATER)

    with store.write() as writer:
        writer.add_batch(batch)

    with store.read() as reader:
        assert reader.get_batch(BATCH) == batch


def test_a_task_comes_back_as_it_was_stored(store):
    task = make_task(
        task_id=TaskId("t2"),
        session_id=SessionId("s2"),
        cancelled_at=LATER,
        parent_task_id=TASK,
        fork_message_id="m1",
    )
    add_task_with_run(store)

    with store.write() as writer:
        writer.add_task(task)

    with store.read() as reader:
        assert reader.get_task(task.task_id) == task


def test_a_run_comes_back_as_it_was_stored(store):
    run = make_run(
        run_id=RunId("r2"),
        number=2,
        state=RunState.FAILED,
        reason="no memory left",
        outcome=Outcome.OUT_OF_MEMORY,
        attempt=3,
        started_at=NOON,
        ended_at=LATER,
        usage=Usage(wall_milliseconds=1, tokens=2**40),
        verify_before=VerifyResult(passed=False, exit_code=None, runs=1, flaky=False),
        verify_after=VerifyResult(
            passed=True, exit_code=0, runs=3, flaky=True, log=EvidenceId("sha256:0")
        ),
        verify_milliseconds=2**35,
        items=7,
        head="sha256:7",
    )
    add_task_with_run(store, state=RunState.CANCELLED)

    with store.write() as writer:
        writer.add_run(run)

    with store.read() as reader:
        assert reader.get_run(run.run_id) == run


def test_an_execution_comes_back_as_it_was_stored(filled):
    execution = make_execution(
        action_digest="sha256:bb",
        state=ExecutionState.STARTED,
        attempt=2,
        base_snapshot_id=SnapshotId("sha256:1"),
        result_snapshot_id=SnapshotId("sha256:2"),
    )

    with filled.write() as writer:
        writer.add_execution(execution)

    with filled.read() as reader:
        assert reader.find_execution(SESSION, RUN, CALL) == execution


def test_a_snapshot_comes_back_as_it_was_stored(store):
    snapshot = make_snapshot(
        history=History.SHALLOW,
        coverage=Coverage(left_out=(LeftOut(path="home/x", reason="too large"),)),
    )

    with store.write() as writer:
        writer.add_snapshot(snapshot)

    with store.read() as reader:
        assert reader.get_snapshot(snapshot.snapshot_id) == snapshot


def test_the_same_snapshot_again_is_no_error_and_the_first_row_stays(store):
    with store.write() as writer:
        writer.add_snapshot(make_snapshot())

    with store.write() as writer:
        writer.add_snapshot(make_snapshot(commit="9" * 40))

    with store.read() as reader:
        assert reader.get_snapshot(SnapshotId("sha256:1")) == make_snapshot()


@pytest.mark.parametrize(
    "get",
    [
        lambda reader: reader.get_batch("x"),
        lambda reader: reader.get_task("x"),
        lambda reader: reader.get_run("x"),
        lambda reader: reader.get_snapshot("x"),
        lambda reader: reader.get_evidence("x"),
    ],
)
def test_what_is_not_there_is_not_found(store, get: Callable[[StoreReader], object]):
    with store.read() as reader, pytest.raises(NotFoundError, match="'x'"):
        get(reader)


def test_a_name_that_no_store_carries_names_nothing(store):
    with store.read() as reader:
        assert list(reader.find_ids("task", "\udcff")) == []
        with pytest.raises(NotFoundError):
            reader.get_task(TaskId("\udcff"))


@pytest.mark.parametrize(
    "add",
    [
        lambda writer: writer.add_batch(make_batch()),
        lambda writer: writer.add_task(make_task(session_id="other")),
        lambda writer: writer.add_task(make_task(task_id="other")),
        lambda writer: writer.add_run(make_run(number=2)),
    ],
)
def test_an_id_is_used_once(filled, add: Callable[[StoreWriter], None]):
    with pytest.raises(ConflictError), filled.write() as writer:
        add(writer)


@pytest.mark.parametrize(
    "add",
    [
        lambda writer: writer.add_task(make_task(task_id="t2", session_id="s2", batch_id="x")),
        lambda writer: writer.add_run(make_run(run_id="r2", task_id="x", session_id="s9")),
        lambda writer: writer.add_execution(make_execution(run_id="x")),
        lambda writer: writer.append_items("x", [said()], at=NOON),
        lambda writer: writer.append_items("x", [], at=NOON),
        lambda writer: writer.save_run(make_run(run_id="x"), expected=RunState.QUEUED),
        lambda writer: writer.save_execution(
            make_execution(call_id="x"), expected=ExecutionState.REQUESTED
        ),
        lambda writer: writer.cancel_batch("x", NOON),
        lambda writer: writer.cancel_task("x", NOON),
    ],
)
def test_a_write_to_what_is_not_there_is_refused(filled, add: Callable[[StoreWriter], None]):
    with pytest.raises(NotFoundError, match="'x'"), filled.write() as writer:
        add(writer)


def test_batches_are_listed_newest_first_also_those_of_one_instant(store):
    with store.write() as writer:
        writer.add_batch(make_batch(batch_id="b3", created_at=LATER))
        writer.add_batch(make_batch(batch_id="b2"))
        writer.add_batch(make_batch(batch_id="b1"))

    with store.read() as reader:
        assert [one.batch_id for one in reader.list_batches()] == ["b3", "b1", "b2"]


def test_tasks_and_last_runs_are_listed_by_age_of_the_batch_and_position(store):
    with store.write() as writer:
        writer.add_batch(make_batch(batch_id="young", created_at=LATER))
        writer.add_batch(make_batch(batch_id="old"))
        for name, batch, position in [("a", "young", 0), ("b", "old", 1), ("c", "old", 0)]:
            writer.add_task(
                make_task(task_id=name, session_id=name, batch_id=batch, position=position)
            )
            writer.add_run(make_run(run_id=name, task_id=name, session_id=name, batch_id=batch))

    with store.read() as reader:
        assert [one.task_id for one in reader.list_tasks()] == ["c", "b", "a"]
        assert [one.task_id for one in reader.list_tasks(BatchId("old"))] == ["c", "b"]
        assert [one.run_id for one in reader.list_last_runs()] == ["c", "b", "a"]
        assert [one.run_id for one in reader.list_last_runs(BatchId("old"))] == ["c", "b"]


def test_the_last_run_is_the_one_of_the_highest_number(store):
    add_task_with_run(store, state=RunState.FAILED)
    with store.write() as writer:
        writer.add_task(make_task(task_id="t2", session_id="s2"))  # never ran
        writer.add_run(make_run(run_id="r0", number=2))

    with store.read() as reader:
        assert [one.run_id for one in reader.list_runs(TASK)] == ["r1", "r0"]
        assert [one.run_id for one in reader.list_last_runs()] == ["r0"]


def test_runs_are_found_by_state_oldest_first(store):
    add_task_with_run(store, 1, created_at=LATER)
    add_task_with_run(store, 2, state=RunState.RUNNING)
    add_task_with_run(store, 3, state=RunState.FAILED)

    with store.read() as reader:
        due = reader.list_runs_in([RunState.QUEUED, RunState.RUNNING])
        none = reader.list_runs_in([])

    assert [one.run_id for one in due] == ["r2", "r1"]
    assert list(none) == []


def test_ids_are_found_by_prefix_and_at_most_ten(store):
    for number in range(1, 13):
        add_task_with_run(store, number)

    with store.read() as reader:
        assert len(reader.find_ids("task", "t")) == 10
        assert list(reader.find_ids("run", "r12")) == ["r12"]
        assert list(reader.find_ids("session", "s3")) == ["s3"]
        assert list(reader.find_ids("batch", "b")) == ["b1"]
        assert list(reader.find_ids("batch", "B")) == []
        assert list(reader.find_ids("batch", "%")) == []


def test_a_session_has_one_live_run(filled):
    with pytest.raises(ConflictError, match="s1"), filled.write() as writer:
        writer.add_run(make_run(run_id=RunId("r2"), number=2))


def test_a_session_takes_a_new_run_when_the_last_one_has_ended(store):
    add_task_with_run(store, state=RunState.CANCELLED)

    with store.write() as writer:
        writer.add_run(make_run(run_id=RunId("r2"), number=2))

    with store.read() as reader:
        assert reader.get_run(RunId("r2")).number == 2


def test_a_saved_run_has_its_new_values_but_keeps_its_attempts_and_origin(filled):
    hold(filled)
    changed = make_run(
        state=RunState.RUNNING, reason="at work", started_at=NOON, attempt=0, created_at=LATER
    )

    with filled.write() as writer:
        writer.save_run(changed, expected=RunState.QUEUED)

    with filled.read() as reader:
        assert reader.get_run(RUN) == replace(changed, attempt=1, created_at=NOON)


def test_a_stale_save_is_refused_and_leaves_no_item(filled):
    with pytest.raises(StaleVersionError, match="running, found queued"), filled.write() as writer:  # noqa: PT012
        writer.append_items(SESSION, [said()], at=NOON)
        writer.save_run(make_run(state=RunState.FAILED), expected=RunState.RUNNING)

    with filled.read() as reader:
        assert reader.count_items(SESSION) == (0, "")


def test_an_ended_run_stays_ended(store):
    add_task_with_run(store, state=RunState.FAILED)

    with pytest.raises(ConflictError, match="failed cannot become running"):  # noqa: SIM117
        with store.write() as writer:
            writer.save_run(make_run(state=RunState.RUNNING), expected=RunState.FAILED)


def test_cancelling_a_batch_marks_it_and_its_tasks_that_have_not_ended(store):
    add_task_with_run(store, 1, state=RunState.RUNNING)
    add_task_with_run(store, 2, state=RunState.COMPLETED)
    with store.write() as writer:
        writer.add_task(make_task(task_id="t3", session_id="s3"))  # never ran

    with store.write() as writer:
        writer.cancel_batch(BATCH, NOON)
        writer.cancel_batch(BATCH, LATER)

    with store.read() as reader:
        assert reader.get_batch(BATCH).cancelled_at == NOON
        marks = {one.task_id: one.cancelled_at for one in reader.list_tasks(BATCH)}
    assert marks == {"t1": NOON, "t2": None, "t3": NOON}


def test_cancelling_a_task_keeps_the_first_instant(filled):
    with filled.write() as writer:
        writer.cancel_task(TASK, NOON)
    with filled.write() as writer:
        writer.cancel_task(TASK, LATER)

    with filled.read() as reader:
        assert reader.get_task(TASK).cancelled_at == NOON
        assert reader.get_batch(BATCH).cancelled_at is None


def test_evidence_comes_back_byte_for_byte_under_one_id(store):
    data = bytes(range(256)) * 100

    with store.write() as writer:
        first = writer.put_evidence(data)
    with store.write() as writer:
        second = writer.put_evidence(data)

    assert first == second
    with store.read() as reader:
        assert reader.get_evidence(first) == data


def test_a_failing_block_leaves_nothing(filled):
    with pytest.raises(ZeroDivisionError), filled.write() as writer:  # noqa: PT012
        writer.append_items(SESSION, [said()], at=NOON)
        writer.add_snapshot(make_snapshot())
        1 / 0  # noqa: B018

    with filled.read() as reader:
        assert reader.count_items(SESSION) == (0, "")
        with pytest.raises(NotFoundError):
            reader.get_snapshot(SnapshotId("sha256:1"))


def test_a_view_does_not_see_what_is_written_meanwhile(filled):
    with filled.read() as reader:
        before = reader.count_items(SESSION)
        with filled.write() as writer:
            writer.append_items(SESSION, [said()], at=NOON)

        assert reader.count_items(SESSION) == before


def test_a_write_inside_a_write_is_a_bug_that_is_told(filled):
    with filled.write(), pytest.raises(RuntimeError, match="inside a write"):
        claim(filled)


def test_the_store_works_on_after_a_refused_write(filled):
    with pytest.raises(ConflictError), filled.write() as writer:
        writer.add_batch(make_batch())

    with filled.write() as writer:
        writer.append_items(SESSION, [said()], at=NOON)


def test_s04_an_instant_of_another_zone_comes_back_equal_aware_and_sorted(store):
    kolkata = timezone(timedelta(hours=5, minutes=30))
    earlier = NOON - timedelta(hours=1)
    with store.write() as writer:
        writer.add_batch(make_batch(batch_id="late", created_at=NOON))
        writer.add_batch(make_batch(batch_id="soon", created_at=earlier.astimezone(kolkata)))

    with store.read() as reader:
        batches = reader.list_batches()
    assert [one.batch_id for one in batches] == ["late", "soon"]
    assert batches[1].created_at == earlier
    assert batches[1].created_at.tzinfo is not None


def test_s06_a_nul_in_a_reason_is_stored_as_a_replacement_character(filled):
    verify = VerifyResult(passed=False, exit_code=1, runs=1, flaky=False, detail="c\0\udc80")

    with filled.write() as writer:
        run = make_run(state=RunState.FAILED, reason="a\0b\ud800", verify_after=verify)
        writer.save_run(run, expected=RunState.QUEUED)

    with filled.read() as reader:
        stored = reader.get_run(RUN)
    assert stored.reason == "a\N{REPLACEMENT CHARACTER}b\N{REPLACEMENT CHARACTER}"
    assert stored.verify_after.detail == "c\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}"
