"""Shows answers: the one module that turns them into text or JSON.

What comes from agents and repositories is shown by `visible`, so that it cannot steer a terminal.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Iterator

from policies import FlaggedPath, Json, show_path
from runner.application.apply_task import WrittenCheckout
from runner.application.report import BatchReport, TaskReport
from runner.domain.instant import show_instant
from runner.domain.items import (
    AssistantMessage,
    DecisionItem,
    Event,
    ExecutionItem,
    FragmentItem,
    RolloutItem,
    SnapshotItem,
    ToolResult,
    TurnContext,
    UserMessage,
)
from runner.domain.outcome import Outcome
from runner.domain.records import SetupResult, VerifyResult
from runner.domain.task import SetupSpec
from runner.domain.visible import show_line, show_text
from runner.entrypoints.answers import (
    Answer,
    BatchChecked,
    BatchEnded,
    BatchStanding,
    Branched,
    Cancelled,
    CheckedOut,
    DemoEnded,
    Explained,
    Exported,
    ImageListing,
    Patch,
    PolicyChecked,
    Proof,
    TaskEnded,
    TaskListing,
    TaskLog,
    TaskShown,
    Worked,
)
from runner.entrypoints.doctor_table import show_examination
from runner.entrypoints.examined import Examined

NOTHING = "—"


def render_answer(answer: Answer, *, as_json: bool, on_terminal: bool = False) -> bytes:
    """Return the bytes for standard output.

    A patch and a rollout are the exact bytes for a file or a pipe; on a terminal they are text to
    look at, in which nothing is hidden.
    """
    if isinstance(answer, Exported):
        return _show_bytes(answer.lines) if on_terminal else answer.lines
    if as_json:
        return render_json(answer.to_json())
    if isinstance(answer, Patch):
        return _show_bytes(answer.patch) if on_terminal else answer.patch
    return "".join(f"{line}\n" for line in _list_lines(answer)).encode("utf-8", "backslashreplace")


def render_json(value: Json) -> bytes:
    """Return one JSON object as text; everything outside ASCII is escaped."""
    return json.dumps(value, indent=2).encode() + b"\n"


def _show_bytes(data: bytes) -> bytes:
    return show_text(data.decode("utf-8", "backslashreplace")).encode()


def _list_lines(answer: Answer) -> Iterable[str]:  # noqa: C901, PLR0911, PLR0912  one case a kind
    match answer:
        case BatchEnded():
            return _show_ended(answer)
        case DemoEnded(batch, _):
            return [*_show_ended(batch), "", *_show_next_steps(answer)]
        case BatchStanding():
            return _show_standing(answer)
        case BatchChecked():
            return _show_checked(answer)
        case Cancelled(kind, name, open_tasks):
            tasks = "1 task" if open_tasks == 1 else f"{open_tasks} tasks"
            return [f"cancelled {kind} {name}: {tasks} had not ended"]
        case TaskEnded(report, batch):
            return [*_show_task(report), f"results: {batch.report.batch.results_dir}"]
        case TaskShown(report):
            return _show_task(report)
        case TaskListing(reports):
            return _show_tasks(reports)
        case TaskLog(_, items):
            return [line for item in items for line in _show_item(item)]
        case Branched(_, branch, made):
            return [f"branch {branch} is at {made.commit}", *show_flagged(made.flagged)]
        case CheckedOut(_, written):
            return _show_checkout(written)
        case PolicyChecked(policy):
            return [f"policy {policy.name} loads: {policy.digest}"]
        case Explained():
            return _show_decision(answer)
        case ImageListing(images):
            return [f"{one.name:10} {one.tag:34} {one.image_id or 'not built'}" for one in images]
        case Proof():
            return _show_proof(answer)
        case Examined(examination):
            return show_examination(examination)
        case Worked():
            return ["suspended" if answer.interrupted else "nothing is due any more"]
        case _:
            raise TypeError(f"no text for {type(answer).__name__}")


def _show_waiting(report: BatchReport) -> Iterator[str]:
    for task in report.waiting_for_person:
        where = f"{task.task.spec.name} ({task.task.task_id})"
        yield f"needs you: {where}: {show_line(task.run.reason, 300)}"


def _show_ended(answer: BatchEnded) -> Iterator[str]:
    report = answer.report
    yield from _show_tasks(report.tasks)
    yield ""
    yield f"batch {report.batch.batch_id}: {_sum_up(report)}"
    yield f"results: {report.batch.results_dir}"
    for problem in answer.problems:
        yield f"results are not complete: {show_line(problem, 300)}"
    yield from _show_waiting(report)
    if report.ended:
        return
    if answer.unattended:
        yield say_unattended(report)
    elif answer.interrupted and answer.watched:
        yield "watching has ended; the batch goes on where it is worked on"
    elif answer.interrupted:
        yield f"suspended; `forkyard batch resume {report.batch.batch_id}` goes on"


def say_unattended(report: BatchReport) -> str:
    """Return what to do about a batch with tasks left that no live process holds."""
    return (
        "no process works on it now; "
        f"`forkyard batch resume {report.batch.batch_id}` or a `forkyard worker` goes on"
    )


def _sum_up(report: BatchReport) -> str:
    counts: dict[str, int] = {}
    for task in report.tasks:
        name = (task.outcome or task.state).value
        counts[name] = counts.get(name, 0) + 1
    words = ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))
    if not report.ended:
        return words
    return f"{words} — {'as expected' if report.as_wanted else 'not all as expected'}"


def _show_next_steps(answer: DemoEnded) -> Iterator[str]:
    report, program = answer.batch.report, answer.program
    folder = report.batch.results_dir
    yield "Look at next:"
    yield f"  {folder}/report.html"
    fixed = _find_task(report, Outcome.VERIFIED)
    refused = _find_task(report, Outcome.PREVENTED) or fixed
    if refused is not None:
        yield "what happened, and what was refused:"
        yield f"  {program} task log {refused.task.task_id}"
    if fixed is not None:
        name, task_id = fixed.task.spec.name, fixed.task.task_id
        yield "a repair as a patch, as a branch, and the proof of its history:"
        yield f"  {folder}/{name}/changes.patch"
        yield f"  {program} task apply {task_id} --branch {name}"
        yield f"  {program} rollout verify {task_id}"


def _find_task(report: BatchReport, outcome: Outcome) -> TaskReport | None:
    return next((task for task in report.tasks if task.outcome is outcome), None)


def _show_standing(answer: BatchStanding) -> Iterator[str]:
    report = answer.report
    yield f"batch {report.batch.batch_id} ({report.batch.spec.name}): {_sum_up(report)}"
    yield f"results: {report.batch.results_dir}"
    if answer.shortage:
        yield f"no run starts here: {show_line(answer.shortage, 300)}"
    elif answer.unattended:
        yield say_unattended(report)
    yield from _show_waiting(report)


def _show_checked(answer: BatchChecked) -> Iterator[str]:
    for task in answer.tasks:
        cpus = task.cpu_thousandths / 1000
        image = task.image_id[:19] or "image not ready"
        commit = task.commit[:12] or "no commit"
        yield f"{task.name}: {commit}, {image}, {task.memory_mib} MiB, {cpus:g} CPUs"
        yield from (f"  {show_line(note, 300)}" for note in task.notes)
        if task.setup is not None:
            yield _show_planned(task.setup)
    cost = answer.worst_cost_micro_usd
    yield "costs at most: " + ("no limit is set" if cost is None else f"${cost / 1_000_000:.2f}")
    for problem in answer.problems:
        yield f"problem: {show_line(problem, 300)}"
    if not answer.problems:
        yield f"batch {answer.name} can start"


def _show_tasks(reports: Iterable[TaskReport]) -> Iterator[str]:
    rows = [("task", "id", "outcome", "ran", "why")]
    rows += [
        (
            one.task.spec.name,
            one.task.task_id,
            (one.outcome or one.state).value,
            f"{one.clocks.running_milliseconds / 1000:.1f} s",
            show_line(one.run.reason, 90),
        )
        for one in reports
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    for row in rows:
        cells = [f"{cell:<{width}}" for cell, width in zip(row, widths, strict=False)]
        yield "  ".join([*cells, row[4]]).rstrip()


def _show_task(report: TaskReport) -> Iterator[str]:
    spec, clocks, usage = report.task.spec, report.clocks, report.run.usage
    yield f"task {report.task.task_id} ({spec.name}) of batch {report.task.batch_id}"
    yield f"state:     {report.state.value}"
    yield f"outcome:   {report.outcome.value if report.outcome else NOTHING}"
    yield f"why:       {show_line(report.run.reason, 300) or NOTHING}"
    yield f"goal:      {show_line(spec.goal, 300)}"
    if spec.setup is not None:
        spent = clocks.setting_up_milliseconds / 1000
        yield f"setup:     {_show_setup(report.setup)}, {spent:.1f} s"
    yield f"before:    {_show_verify(report.run.verify_before)}"
    yield f"after:     {_show_verify(report.run.verify_after)}"
    if report.files is not None:
        counts = report.files.counts_to_json()
        yield f"changes:   {', '.join(f'{value} {key}' for key, value in counts.items())}"
        yield from show_flagged(report.files.flagged)
        for left_out in report.files.snapshot.coverage.left_out:
            yield f"left out:  {show_line(left_out.path)}: {left_out.reason}"
    yield (
        f"clocks:    waited {clocks.waiting_milliseconds / 1000:.1f} s, "
        f"ran {clocks.running_milliseconds / 1000:.1f} of {spec.budget.wall_seconds} s, "
        f"verified for {clocks.verifying_milliseconds / 1000:.1f} s"
    )
    yield f"calls:     {usage.model_calls} of {spec.budget.model_calls}, {usage.tokens} tokens"
    if report.files is not None:
        yield f"base:      commit {report.files.snapshot.base_commit}"
    yield f"snapshot:  {report.snapshot_id or NOTHING}"


def _show_planned(setup: SetupSpec) -> str:
    command = show_line(shlex.join(setup.argv), 200)
    return f"  setup: {command} (network {setup.network}, at most {setup.timeout_seconds} s)"


def _show_setup(result: SetupResult | None) -> str:
    if result is None:
        return "not run"
    if not result.passed:
        return f"failed: {show_line(result.detail, 300)}"
    return "passed, shared with another task" if result.reused else "passed"


def show_flagged(flagged: Iterable[FlaggedPath]) -> Iterator[str]:
    """Yield a line for each changed path that the user's own tools would execute or obey."""
    for one in flagged:
        yield f"flagged:   {show_line(show_path(one.path), 200)} ({one.tool}): {one.reason}"


def _show_checkout(written: WrittenCheckout) -> Iterator[str]:
    count = len(written.paths)
    where = show_line(written.location, 300)
    yield f"wrote {count} path{'' if count == 1 else 's'} into {where}; nothing is staged"
    yield from show_flagged(written.flagged)


def _show_verify(result: VerifyResult | None) -> str:
    if result is None:
        return "not verified"
    words = ["passed" if result.passed else "did not pass"]
    if result.detail:
        words.append(show_line(result.detail))
    if result.flaky:
        words.append("flaky")
    return ", ".join(words)


def _show_decision(answer: Explained) -> Iterator[str]:
    decision = answer.decision
    yield f"{decision.verdict.value} (rule {decision.rule})"
    for reason in decision.reasons:
        yield f"  {show_line(reason, 300)}"
    if decision.also_matched:
        yield f"  also matched: {', '.join(decision.also_matched)}"


def _show_proof(answer: Proof) -> Iterator[str]:
    proof = answer.proof
    yield (
        f"{'ok' if proof.ok else 'NOT ok'}: {proof.items} items, "
        f"{'anchored' if proof.anchored else 'not anchored'}, "
        f"{proof.requests_rebuilt} of {proof.requests_sent} requests rebuilt"
    )
    for one in proof.problems:
        yield f"  item {one.seq}: {show_line(one.problem, 300)}"


def _show_item(item: RolloutItem) -> Iterator[str]:
    head = f"{item.seq:>4}  {show_instant(item.at)[11:19]}  {item.kind.value}"
    lines = [line for text in _item_texts(item) for line in show_text(text).splitlines()]
    yield f"{head}  {lines[0] if lines else ''}".rstrip()
    for line in lines[1:]:
        yield f"      {line}"


def _item_texts(item: RolloutItem) -> Iterator[str]:  # noqa: C901  one case a kind
    match item.payload:
        case UserMessage(text=text):
            yield text
        case AssistantMessage(text=text, calls=calls):
            yield text
            for call in calls:
                yield f"→ {call.name} {call.arguments}"
        case ToolResult(status=status, reason=reason, text=text):
            yield f"{status.value}{f' ({reason})' if reason else ''}"
            yield text
        case FragmentItem(fragment=fragment, text=text):
            yield fragment
            yield text
        case DecisionItem(subject=subject, verdict=verdict, rule=rule, reasons=reasons):
            yield f"{subject}: {verdict} by {rule} {'; '.join(reasons)}"
        case ExecutionItem(state=state, attempt=attempt, ending=ending, detail=detail):
            yield f"{state}, attempt {attempt} {ending} {detail}".rstrip()
        case SnapshotItem(snapshot_id=snapshot_id):
            yield snapshot_id
        case TurnContext(adapter=adapter, model=model, body_bytes=size, body_digest=digest):
            yield f"{adapter} {model}, {size} bytes, {digest}"
        case Event(name=name, detail=detail):
            yield f"{name} {detail}".rstrip()
        case payload:
            yield json.dumps(payload.model_dump(mode="json", exclude={"kind"}))
