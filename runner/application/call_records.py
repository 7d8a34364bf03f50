"""The items and result texts that a tool call leaves behind."""

from __future__ import annotations

from policies import ChangeKind, Changes, Decision, EntryKind, Policy, show_path
from runner.application.tools import ToolOutput
from runner.domain.items import DecisionItem, ExecutionItem, StoredCall, ToolResult, ToolStatus
from runner.domain.records import Execution
from sandbox import CommandResult, Coverage, SnapshotTaken

SHOWN_REASONS = 6
"""How many reasons of a refusal the model is told; the decision item has all."""


def make_decision_item(
    call: StoredCall, subject: str, digest: str, *, decision: Decision, policy: Policy
) -> DecisionItem:
    """Return the item of what the rules said of a call's action or changes."""
    return DecisionItem(
        call_id=call.call_id,
        subject=subject,
        subject_digest=digest,
        verdict=decision.verdict.value,
        rule=decision.rule,
        reasons=decision.reasons,
        also_matched=decision.also_matched,
        policy_digest=policy.digest,
    )


def make_execution_item(
    execution: Execution, *, results: tuple[CommandResult, ...] = ()
) -> ExecutionItem:
    """Return the item of one step of the ledger; the last result says how it ended."""
    last = results[-1] if results else None
    return ExecutionItem(
        call_id=execution.call_id,
        run_id=execution.run_id,
        state=execution.state.value,
        attempt=execution.attempt,
        ending=last.ending.value if last else "",
        exit_code=last.exit_code if last else None,
        wall_milliseconds=sum(int(one.wall_seconds * 1000) for one in results),
        detail=last.detail if last else "",
    )


def make_failure(call: StoredCall, reason: str, text: str) -> ToolResult:
    """Return the result of a call that failed before or while it ran."""
    return ToolResult(call_id=call.call_id, status=ToolStatus.FAILED, reason=reason, text=text)


def make_denial(call: StoredCall, decision: Decision) -> ToolResult:
    """Return the result of a call that the rules denied; the executor was never called."""
    text = (
        f"Denied by rule {decision.rule}: {_list_reasons(decision)}\n"
        "Nothing was run. Find a way without it, or finish and say what is in the way."
    )
    return ToolResult(call_id=call.call_id, status=ToolStatus.DENIED, reason="denied", text=text)


def make_refusal(
    call: StoredCall,
    decision: Decision,
    *,
    taken: SnapshotTaken,
    before: Coverage,
    output: ToolOutput,
    outside: bool,
) -> ToolResult:
    """Return the result of a call that ran and whose changes broke a rule and were rolled back.

    Args:
        taken: what the call had done, also to what no snapshot holds.
        before: coverage of the snapshot that the files are at again.
        output: of the call.
        outside: effects beyond the files are possible.
    """
    changes = taken.changes
    shown = ", ".join(show_path(change.path) for change in changes.items[:SHOWN_REASONS])
    more = len(changes.items) - SHOWN_REASONS
    listed = shown + (f" and {more} more" if more > 0 else "")
    text = (
        f"The call ran, but its changes broke rule {decision.rule}: {_list_reasons(decision)}\n"
        f"All of its changes were rolled back ({listed}); the files are as before the call. "
        "Do the rest without these changes."
    )
    if before.left_out:
        text += _tell_unheld(changes, before)
    if outside:
        text += " Effects outside the files are possible: the policy gives network or mounts."
    last = output.results[-1] if output.results else None
    if last is not None and last.exit_code is not None:
        text += f"\nIt had ended with exit code {last.exit_code}."
    return make_failure(call, "changes_refused", text)


def _tell_unheld(changes: Changes, before: Coverage) -> str:
    """Say what a roll-back cannot do: pipes, sockets and files too large for a snapshot."""
    text = f" What no snapshot holds ({len(before.left_out)} paths) was left as it is."
    gone = [
        show_path(one.path)
        for one in changes.items
        if one.entry is EntryKind.OTHER and one.kind is ChangeKind.DELETED
    ]
    if gone:
        text += f" Deleted by the call and not brought back: {', '.join(gone[:SHOWN_REASONS])}."
    return text


def _list_reasons(decision: Decision) -> str:
    shown = decision.reasons[:SHOWN_REASONS]
    more = len(decision.reasons) - len(shown)
    return "; ".join(shown) + (f" ({more} more reasons)" if more else "")
