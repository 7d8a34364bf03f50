"""`setup`: a command in a container of its own whose effect on the files is where a task starts.

It runs once for all tasks with the same image, starting files, command and sandbox; what it left
is kept in the store under the digest of these. What it adds to the workspace belongs to the start
and never to the patch. Tracked files must stay as they are: the patch would show them as the
agent's.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from policies import Changes, EntryKind, digest_json, show_path
from runner.application.command_log import LOG_BYTES, quote_last_lines, render_log, tell_ending
from runner.application.sandbox_spec import make_setup_spec
from runner.application.session import Session, Step
from runner.application.shared_setups import SetupDone, SharedSetups
from runner.domain.ids import SetupKey
from runner.domain.items import Event, SnapshotItem
from runner.domain.records import KeptSetup, SetupResult
from runner.domain.task import SetupSpec
from runner.errors import SetupFailedError
from sandbox import Command, CommandResult, SandboxSpec, Snapshot, SnapshotTaken

SHOWN_PATHS = 5
"""How many paths a reason names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Setup:
    """One setup as it would be run."""

    key: SetupKey
    spec: SetupSpec
    sandbox: SandboxSpec


def set_up_task(
    session: Session, untouched: Snapshot, *, image_id: str, setups: SharedSetups
) -> Snapshot:
    """Return the files that the task's setup left, and record them as the task's start.

    Args:
        session: of a run without a snapshot yet.
        untouched: the checkout that the setup starts from.
        image_id: of the task's image.
        setups: what is under way in this process.

    Raises:
        SetupFailedError: it did not pass; the run's row has its log.
        RunStoppedError: the run was told to stop meanwhile.
        SandboxError: it could not be carried out.
    """
    setup = _make_setup(session, untouched, image_id=image_id)
    clock = session.services.clock
    started = clock.monotonic()
    done = setups.join(setup.key, lambda: _find_or_run(session, setup), stop=session.stop)
    spent = int((clock.monotonic() - started) * 1000)
    result = replace(done.result, milliseconds=spent)
    with session.step() as step:
        step.run = replace(step.run, setup=result)
        step.append(_make_event(session, result))
        if done.start is not None:
            record_start(step, done.start)
    if done.start is None:
        raise SetupFailedError(result.detail)
    return done.start


def record_start(step: Step, start: Snapshot) -> None:
    """Record a task's starting snapshot."""
    step.writer.add_snapshot(start)
    step.append(SnapshotItem(snapshot_id=start.snapshot_id, content_id=start.content_id))


def _make_setup(session: Session, untouched: Snapshot, *, image_id: str) -> _Setup:
    spec = session.task.spec.setup
    if spec is None:
        raise ValueError(f"task {session.task.task_id} names no setup")
    sandbox = make_setup_spec(session, image_id, start=untouched, setup=spec)
    key = SetupKey(
        digest_json(
            [
                image_id,
                untouched.repository_id,
                untouched.snapshot_id,  # the base commit is part of it
                untouched.history.value,
                spec.model_dump(mode="json"),
                sandbox.limits.to_json(),
                [sandbox.rootfs.value, sandbox.disk.value],
                [mount.to_json() for mount in sandbox.mounts],
                [list(pair) for pair in sandbox.environment],
            ]
        )
    )
    # not the task's own line: what it left outlives the task
    line = f"setup-{session.task.task_id}-{session.run.number}-{session.run.attempt}"
    return _Setup(key=key, spec=spec, sandbox=replace(sandbox, line=line))


def _find_or_run(session: Session, setup: _Setup) -> SetupDone:
    with session.services.store.read() as view:
        kept = view.find_setup(setup.key)
        if kept is not None:
            result = SetupResult(passed=True, exit_code=0, log=kept.log, reused=True)
            return SetupDone(result, view.get_snapshot(kept.snapshot_id))
    return _run(session, setup)


def _run(session: Session, setup: _Setup) -> SetupDone:
    command = Command(
        argv=setup.spec.argv,
        environment=tuple(sorted(setup.spec.env.items())),
        timeout_seconds=setup.spec.timeout_seconds,
        output_bytes=LOG_BYTES,
    )
    session.stop.check()
    with session.services.host.open_sandbox(setup.sandbox) as sandbox:
        ran = sandbox.run(command, stop=session.stop)
        session.stop.check()
        taken = sandbox.take_start() if ran.ok else None
    if taken is None:
        return _fail(session, ran, _tell_failure(ran, setup.spec))
    problem = _find_problem(taken, untouched=setup.sandbox.start)
    if problem:
        return _fail(session, ran, problem)
    return _keep(session, setup, ran=ran, start=taken.snapshot)


def _keep(session: Session, setup: _Setup, *, ran: CommandResult, start: Snapshot) -> SetupDone:
    """Keep what it left for all tasks of its key; another process may have been first."""
    with session.services.store.write(session.lease) as writer:
        writer.add_snapshot(start)
        ours = KeptSetup(
            setup_key=setup.key,
            snapshot_id=start.snapshot_id,
            log=writer.put_evidence(render_log([ran])),
            created_at=session.services.clock.now(),
        )
        kept = writer.add_setup(ours)
        result = SetupResult(passed=True, exit_code=0, log=kept.log, reused=kept != ours)
        return SetupDone(result, writer.get_snapshot(kept.snapshot_id))


def _fail(session: Session, ran: CommandResult, detail: str) -> SetupDone:
    """Keep the log alone: who comes later tries again."""
    with session.services.store.write(session.lease) as writer:
        log = writer.put_evidence(render_log([ran]))
    result = SetupResult(passed=False, exit_code=ran.exit_code, detail=detail, log=log)
    return SetupDone(result, None)


def _tell_failure(ran: CommandResult, spec: SetupSpec) -> str:
    ending = tell_ending(ran, limit=f"{spec.timeout_seconds} s (setup.timeout_seconds)")
    said = quote_last_lines(ran)
    return f"{ending}; it said last: {said}" if said else f"{ending}; it said nothing"


def _find_problem(taken: SnapshotTaken, *, untouched: Snapshot) -> str:
    """Return why what a setup left is no start for a task, or nothing."""
    if taken.snapshot.source_tree != untouched.source_tree:
        return (
            f"it changed files of the source ({_list_tracked(taken.changes)}), which the patch "
            "would show as the agent's work; commit the change, or let setup leave them alone"
        )
    lost = [one for one in taken.snapshot.coverage.left_out if one.has_content]
    if lost:
        listed = _list_some([f"{one.path}: {one.reason}" for one in lost])
        return f"it left what no snapshot holds ({listed})"
    return ""


def _list_tracked(changes: Changes) -> str:
    return _list_some(
        [
            f"{show_path(one.path)} {one.kind.value}"
            for one in changes.items
            if not one.ignored and one.entry is not EntryKind.DIRECTORY
        ]
    )


def _list_some(texts: list[str]) -> str:
    more = [f"and {len(texts) - SHOWN_PATHS} more"] if len(texts) > SHOWN_PATHS else []
    return ", ".join([*texts[:SHOWN_PATHS], *more])


def _make_event(session: Session, result: SetupResult) -> Event:
    name = "setup.failed"
    if result.passed:
        name = "setup.reused" if result.reused else "setup.ran"
    detail = result.detail or f"log {result.log}"
    return Event(name=name, run_id=session.run.run_id, detail=detail)
