"""What a rollout says about how far a run has come."""

from datetime import UTC, datetime

import pytest

from runner.domain.calls import Role
from runner.domain.context import find_pending_calls, project_messages
from runner.domain.items import (
    AssistantMessage,
    DecisionItem,
    Event,
    FragmentItem,
    NewItem,
    StoredCall,
    ToolResult,
    ToolStatus,
    UserMessage,
    chain_item,
)
from runner.domain.progress import count_corrections, has_finished, was_prevented

AT = datetime(2026, 11, 30, tzinfo=UTC)
ENDING = frozenset({"finish"})


def rollout(*payloads):
    return [
        chain_item(NewItem(payload=payload), seq=seq, at=AT, prev="")
        for seq, payload in enumerate(payloads, start=1)
    ]


def asks(*calls: tuple[str, str]) -> AssistantMessage:
    stored = tuple(
        StoredCall(call_id=call_id, provider_call_id="", name=name, arguments="{}")
        for call_id, name in calls
    )
    return AssistantMessage(text="", calls=stored, stop="tool_calls")


def result(call_id: str, reason: str = "", status: ToolStatus | None = None) -> ToolResult:
    status = status or (ToolStatus.FAILED if reason else ToolStatus.SUCCEEDED)
    return ToolResult(call_id=call_id, status=status, reason=reason, text="")


def test_calls_without_a_result_are_pending_in_their_order() -> None:
    items = rollout(UserMessage(text="go"), asks(("c1", "a"), ("c2", "b")), result("c1"))

    assert [call.call_id for call in find_pending_calls(items)] == ["c2"]


def test_an_answer_without_calls_finishes() -> None:
    assert has_finished(rollout(UserMessage(text="go"), asks()), ENDING)


def test_an_ending_tool_finishes_only_once_it_has_succeeded() -> None:
    asked = (UserMessage(text="go"), asks(("c1", "finish")))

    assert not has_finished(rollout(*asked), ENDING)
    assert not has_finished(rollout(*asked, result("c1", "bad_arguments")), ENDING)
    assert has_finished(rollout(*asked, result("c1")), ENDING)


def test_a_later_user_message_reopens_the_work() -> None:
    items = rollout(UserMessage(text="go"), asks(), UserMessage(text="and now"))

    assert not has_finished(items, ENDING)


def test_only_correctable_failures_in_a_row_are_counted() -> None:
    items = rollout(
        result("c1", "bad_arguments"),
        result("c2", "nonzero_exit"),
        result("c3", "unknown_tool"),
        result("c4", "truncated"),
    )

    assert count_corrections(items) == 2


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (result("c1", "denied", ToolStatus.DENIED), True),
        (result("c1", "changes_refused"), True),
        (result("c1", "nonzero_exit"), False),
    ],
)
def test_a_denial_or_refused_changes_count_as_prevented(answer, expected) -> None:
    assert was_prevented(rollout(answer)) is expected


def test_only_what_was_said_reaches_a_request() -> None:
    items = rollout(
        UserMessage(text="go"),
        FragmentItem(fragment="a.b", role="developer", text="<a.b>x</a.b>"),
        Event(name="run.started"),
        DecisionItem(
            call_id="c1",
            subject="action",
            subject_digest="",
            verdict="allow",
            rule="default",
            policy_digest="",
        ),
        asks(("c1", "shell")),
        result("c1"),
    )

    roles = [message.role for message in project_messages(items)]

    assert roles == [Role.USER, Role.DEVELOPER, Role.ASSISTANT, Role.TOOL]
