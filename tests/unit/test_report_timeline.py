from __future__ import annotations

from datetime import UTC, datetime

from runner.application.timeline import make_timeline
from runner.domain.ids import CallId, RunId
from runner.domain.items import (
    AssistantMessage,
    ExecutionItem,
    NewItem,
    Payload,
    RolloutItem,
    StoredCall,
    ToolResult,
    ToolStatus,
    chain_item,
)

AT = datetime(2026, 11, 30, tzinfo=UTC)


def make_items(*payloads: Payload) -> list[RolloutItem]:
    items: list[RolloutItem] = []
    for seq, payload in enumerate(payloads, start=1):
        prev = items[-1].hash if items else ""
        items.append(chain_item(NewItem(payload=payload), seq=seq, at=AT, prev=prev))
    return items


def ask(*names: str, arguments: str = "{}") -> AssistantMessage:
    calls = tuple(
        StoredCall(call_id=CallId(name), provider_call_id=name, name="shell", arguments=arguments)
        for name in names
    )
    return AssistantMessage(text="", calls=calls, stop="tool_calls")


def answer(name: str, status: ToolStatus = ToolStatus.SUCCEEDED, reason: str = "") -> ToolResult:
    return ToolResult(call_id=CallId(name), status=status, reason=reason, text="out")


def test_each_call_stands_once_with_its_result_in_the_order_asked() -> None:
    items = make_items(ask("a", "b"), answer("b", ToolStatus.DENIED, "rule"), answer("a"))

    steps = make_timeline(items)

    assert [(one.call_id, one.status, one.reason) for one in steps] == [
        ("a", "succeeded", ""),
        ("b", "denied", "rule"),
    ]


def test_a_call_without_a_result_is_pending() -> None:
    assert make_timeline(make_items(ask("a")))[0].status == "pending"


def test_the_last_execution_gives_time_and_attempt() -> None:
    run = RunId("r")
    items = make_items(
        ask("a"),
        ExecutionItem(call_id=CallId("a"), run_id=run, state="started", attempt=2),
        ExecutionItem(
            call_id=CallId("a"), run_id=run, state="succeeded", attempt=2, wall_milliseconds=70
        ),
    )

    assert (make_timeline(items)[0].attempt, make_timeline(items)[0].wall_milliseconds) == (2, 70)


def test_long_arguments_are_cut_and_counted() -> None:
    step = make_timeline(make_items(ask("a", arguments="x" * 250)))[0]

    assert step.arguments.endswith("… (+50 characters)")
