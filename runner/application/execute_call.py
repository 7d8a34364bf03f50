"""The executor: one tool call from the model's words to its one result.

Structure and tool name, then the rules, then `started` in the ledger, then the command and the
end of every process of it, then the snapshot, then the rules on what really changed, then the
result. Each arrow is a durable point. A call that is found `started` was cut off by a crash: its
sandbox was rebuilt from the snapshot that it had started from, and it is started again as the same
execution.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from pydantic import BaseModel

from policies import (
    Action,
    Decision,
    Verdict,
    canonical_arguments,
    digest_bytes,
    judge_action,
    judge_changes,
)
from runner.application.call_records import (
    make_decision_item,
    make_denial,
    make_execution_item,
    make_failure,
    make_refusal,
)
from runner.application.session import Session, Step
from runner.application.tool_output import present_output
from runner.application.tools import BadArgumentsError, Tool, ToolContext, ToolOutput
from runner.domain.items import Event, SnapshotItem, StoredCall, ToolResult, ToolStatus
from runner.domain.outcome import RunState
from runner.domain.progress import count_crashes
from runner.domain.records import Execution, ExecutionState
from runner.errors import RunnerError
from sandbox import CommandRefusedError, Sandbox, SnapshotTaken

MAX_ATTEMPTS = 3
"""A call is started once, and again after a crash at most twice; a suspension is no crash."""


class CallUnknownError(RunnerError):
    """A call with reach outside was cut off: its effect is not known, a person has to say."""

    code = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedCall:
    """A call whose structure is right, with what it asks for and what the rules say."""

    call: StoredCall
    tool: Tool
    arguments: BaseModel
    action: Action
    decision: Decision


class Executor:
    """Carries out calls of one session in its sandbox."""

    def __init__(self, session: Session, sandbox: Sandbox, *, tools: Mapping[str, Tool]) -> None:
        self._session = session
        self._sandbox = sandbox
        self._tools = tools

    def execute(self, call: StoredCall) -> None:
        """Bring a call to its result in the rollout.

        Raises:
            CallUnknownError: it was cut off earlier and may have reached outside.
            RunStoppedError: the run was told to stop; the call stays `started`, and is answered by
                the end of the run or started again when the run goes on.
            SandboxLostError: the sandbox is gone; the call stays `started`.
        """
        judged = self._judge(call)
        if judged is None:
            return
        found = self._find(call)
        started = self._request(judged) if found is None else self._start_again(judged, found)
        if started is not None:
            self._run(judged, started)

    def _judge(self, call: StoredCall) -> JudgedCall | None:
        tool = self._tools.get(call.name)
        if tool is None:
            known = ", ".join(sorted(self._tools))
            self._fail(call, "unknown_tool", f"There is no tool {call.name!r}. Tools: {known}.")
            return None
        try:
            arguments = tool.parse(call.arguments)
        except BadArgumentsError as error:
            self._fail(call, "bad_arguments", str(error))
            return None
        action = self._make_action(tool, arguments)
        return JudgedCall(
            call=call,
            tool=tool,
            arguments=arguments,
            action=action,
            decision=judge_action(self._session.policy, action),
        )

    def _make_action(self, tool: Tool, arguments: BaseModel) -> Action:
        sandbox = self._session.policy.sandbox
        return Action(
            tool=tool.name,
            arguments=canonical_arguments(arguments.model_dump(mode="json")),
            paths=tool.paths(arguments),
            environment=sandbox.env_set,
            network=sandbox.network,
            mounts=sandbox.mounts,
            limits=sandbox.limits,
        )

    def _fail(self, call: StoredCall, reason: str, text: str) -> None:
        with self._session.step() as step:
            step.append_message(make_failure(call, reason, text))

    def _find(self, call: StoredCall) -> Execution | None:
        session = self._session
        with session.services.store.read() as view:
            return view.find_execution(session.task.session_id, session.run.run_id, call.call_id)

    def _request(self, judged: JudgedCall) -> Execution | None:
        """Enter a new call in the ledger: started where the rules allow it, else denied."""
        session = self._session
        denied = judged.decision.verdict is not Verdict.ALLOW
        execution = Execution(
            session_id=session.task.session_id,
            run_id=session.run.run_id,
            call_id=judged.call.call_id,
            tool=judged.tool.name,
            arguments_digest=digest_bytes(judged.action.arguments.encode()),
            action_digest=judged.action.digest,
            state=ExecutionState.DENIED if denied else ExecutionState.STARTED,
            attempt=0 if denied else 1,
            base_snapshot_id=None if denied else session.files.snapshot_id,
        )
        with session.step() as step:
            step.writer.add_execution(execution)
            self._append_decision(step, judged, subject="action", digest=judged.action.digest)
            step.append(make_execution_item(execution))
            if denied:
                step.append_message(make_denial(judged.call, judged.decision))
        return None if denied else execution

    def _append_decision(
        self, step: Step, judged: JudgedCall, *, subject: str, digest: str
    ) -> None:
        policy = self._session.policy
        step.append(
            make_decision_item(
                judged.call, subject, digest, decision=judged.decision, policy=policy
            )
        )

    def _start_again(self, judged: JudgedCall, execution: Execution) -> Execution | None:
        """Start an execution that was cut off; None when it has been cut off too often."""
        if judged.action.reaches_outside:
            self._mark_unknown(judged, execution)
        crashes = count_crashes(self._session.items, judged.call.call_id)
        if crashes >= MAX_ATTEMPTS:
            self._give_up(judged, execution, crashes=crashes)
            return None
        started = replace(
            execution,
            state=ExecutionState.STARTED,
            attempt=execution.attempt + 1,
            base_snapshot_id=self._session.files.snapshot_id,
        )
        with self._session.step() as step:
            step.writer.save_execution(started, expected=execution.state)
            step.append(make_execution_item(started))
        return started

    def _mark_unknown(self, judged: JudgedCall, execution: Execution) -> None:
        unknown = replace(execution, state=ExecutionState.UNKNOWN)
        reason = (
            f"call {judged.call.call_id} ({judged.tool.name}) was cut off and may have reached "
            "outside: its effect is not known"
        )
        with self._session.step() as step:
            step.writer.save_execution(unknown, expected=execution.state)
            step.append(make_execution_item(unknown))
            step.move_run(RunState.NEEDS_ATTENTION, reason=reason)
        raise CallUnknownError(reason)

    def _give_up(self, judged: JudgedCall, execution: Execution, *, crashes: int) -> None:
        failed = replace(execution, state=ExecutionState.FAILED)
        text = (
            f"This call was cut off {crashes} times (its sandbox or its runner was lost). The "
            "files are as before the call. Try something that needs less."
        )
        with self._session.step() as step:
            step.writer.save_execution(failed, expected=execution.state)
            step.append(make_execution_item(failed))
            step.append_message(make_failure(judged.call, "sandbox_lost", text))

    def _run(self, judged: JudgedCall, started: Execution) -> None:
        session = self._session
        output = self._carry_out(judged)
        session.stop.check()
        taken = self._sandbox.take_snapshot() if judged.tool.writes else None
        if taken is None:
            self._conclude(judged, started, output=output)
            return
        decision = judge_changes(session.policy, taken.changes)
        judged = replace(judged, decision=decision)
        if decision.verdict is Verdict.ALLOW:
            self._conclude(judged, started, output=output, taken=taken)
        else:
            self._roll_back(judged, started, output=output, taken=taken)

    def _carry_out(self, judged: JudgedCall) -> ToolOutput:
        try:
            return judged.tool.run(judged.arguments, self._context())
        except CommandRefusedError as refused:
            return ToolOutput(ok=False, reason="bad_arguments", text=str(refused))

    def _context(self) -> ToolContext:
        session = self._session
        limits = session.policy.sandbox.limits
        seconds, limit_name = session.seconds_for_a_call(limits.call_seconds)
        return ToolContext(
            sandbox=self._sandbox,
            limits=limits,
            timeout_seconds=seconds,
            timeout_limit=limit_name,
            verify=session.task.spec.verify,
            stop=session.stop,
        )

    def _conclude(
        self,
        judged: JudgedCall,
        started: Execution,
        *,
        output: ToolOutput,
        taken: SnapshotTaken | None = None,
    ) -> None:
        session = self._session
        changed = taken is not None and taken.snapshot.snapshot_id != session.files.snapshot_id
        ended = replace(
            started,
            state=ExecutionState.SUCCEEDED if output.ok else ExecutionState.FAILED,
            result_snapshot_id=taken.snapshot.snapshot_id if taken and changed else None,
        )
        with session.step() as step:
            if taken is not None and changed:
                digest = taken.changes.digest
                step.writer.add_snapshot(taken.snapshot)
                self._append_decision(step, judged, subject="changes", digest=digest)
                step.append(_snapshot_item(judged.call, taken))
            step.writer.save_execution(ended, expected=ExecutionState.STARTED)
            step.append(make_execution_item(ended, results=output.results))
            self._append_result(step, judged.call, output)
        if taken is not None and changed:
            session.files = taken.snapshot

    def _roll_back(
        self, judged: JudgedCall, started: Execution, *, output: ToolOutput, taken: SnapshotTaken
    ) -> None:
        session = self._session
        self._sandbox.restore(session.files)
        failed = replace(started, state=ExecutionState.FAILED)
        refusal = make_refusal(
            judged.call,
            judged.decision,
            taken=taken,
            before=session.files.coverage,
            output=output,
            outside=judged.action.reaches_outside,
        )
        with session.step() as step:
            self._append_decision(step, judged, subject="changes", digest=taken.changes.digest)
            step.writer.save_execution(failed, expected=ExecutionState.STARTED)
            step.append(make_execution_item(failed, results=output.results))
            step.append(Event(name="changes.rolled_back", run_id=session.run.run_id))
            step.append_message(refusal)
            _count_use(step, output, total_bytes=0)

    def _append_result(self, step: Step, call: StoredCall, output: ToolOutput) -> None:
        shown = present_output(output, limits=self._session.policy.sandbox.limits)
        evidence = None if shown.evidence is None else step.writer.put_evidence(shown.evidence)
        step.append_message(
            ToolResult(
                call_id=call.call_id,
                status=ToolStatus.SUCCEEDED if output.ok else ToolStatus.FAILED,
                reason=output.reason,
                text=shown.text,
                evidence=evidence,
                total_bytes=shown.total_bytes,
            )
        )
        _count_use(step, output, total_bytes=shown.total_bytes)


def _snapshot_item(call: StoredCall, taken: SnapshotTaken) -> SnapshotItem:
    return SnapshotItem(
        snapshot_id=taken.snapshot.snapshot_id,
        content_id=taken.snapshot.content_id,
        call_id=call.call_id,
        changes_digest=taken.changes.digest,
    )


def _count_use(step: Step, output: ToolOutput, *, total_bytes: int) -> None:
    seconds = sum(result.wall_seconds for result in output.results)
    step.use(tool_milliseconds=int(seconds * 1000), output_bytes=total_bytes)
