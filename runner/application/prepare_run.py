"""Before the first step: what the session opens with, then the image and the starting files."""

from __future__ import annotations

from dataclasses import dataclass

from runner.application.session import Session, Step
from runner.application.set_up_task import record_start, set_up_task
from runner.application.shared_setups import SharedSetups
from runner.domain.fragment import Fragment
from runner.domain.items import ConstraintItem, Event, SessionMeta, SnapshotItem, UserMessage
from runner.domain.task import ImportedSpec, RepositorySpec
from sandbox import (
    CommitId,
    History,
    ImportedSource,
    RepositoryId,
    SandboxHost,
    Snapshot,
    SnapshotId,
    Source,
    SourceError,
    SourceKind,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """What a run works on."""

    image_id: str
    start: Snapshot
    """The task's starting snapshot; the session's own last one is `session.files`."""


def open_session(session: Session, step: Step) -> None:
    """Append what a session begins with: nothing may fail before the goal is in the rollout."""
    task = session.task
    step.append(
        SessionMeta(
            session_id=task.session_id,
            task_id=task.task_id,
            task_name=task.spec.name,
            forkyard_version=session.services.version,
        )
    )
    step.append_message(UserMessage(text=task.spec.goal))
    step.append(*(ConstraintItem(text=one.text) for one in task.spec.constraints))
    demands = "\n".join(f"- {one.text}" for one in task.spec.constraints)
    if demands:
        step.append(Fragment(kind="constraints.demanded", text=demands).to_item())
    step.append(Event(name="session.opened", run_id=session.run.run_id))


def prepare_run(session: Session, *, setups: SharedSetups) -> Prepared:
    """Find image and files; record the starting snapshot where there is none yet.

    Raises:
        SetupFailedError: the task's setup did not pass.
        RunStoppedError: the run was told to stop during it.
        ImageMissingError, SourceError: what the task names is not there.
        EngineError, SnapshotError, RepositoryError: this host failed.
    """
    image_id = session.services.host.resolve_image(session.task.spec.image)
    found = _find_snapshots(session)
    if found:
        start, session.files = found[0], found[-1]
    else:
        start = session.files = _make_start(session, image_id, setups=setups)
    return Prepared(image_id=image_id, start=start)


def make_source(spec: RepositorySpec) -> Source:
    """Return the source that a task's repository names."""
    return Source(
        kind=SourceKind(spec.kind),
        location=spec.location,
        ref=spec.ref,
        history=History(spec.history),
        include=spec.include,
    )


def pin_source(spec: RepositorySpec, host: SandboxHost) -> RepositorySpec:
    """Return a repository of this host as it is now; any other spec as it is.

    What cannot be imported is not pinned: the task's own run says so.
    """
    if spec.kind != SourceKind.PATH.value or spec.imported is not None:
        return spec
    try:
        found = host.import_source(make_source(spec))
    except SourceError:
        return spec
    imported = ImportedSpec(
        repository_id=found.repository_id, commit=found.commit, notes=found.notes
    )
    return spec.model_copy(update={"imported": imported})


def _find_snapshots(session: Session) -> list[Snapshot]:
    ids = [
        SnapshotId(item.payload.snapshot_id)
        for item in session.items
        if isinstance(item.payload, SnapshotItem)
    ]
    if not ids:
        return []
    with session.services.store.read() as view:
        return [view.get_snapshot(ids[0]), view.get_snapshot(ids[-1])]


def _make_start(session: Session, image_id: str, *, setups: SharedSetups) -> Snapshot:
    host = session.services.host
    imported = _import(session.task.spec.repo, host)
    untouched = host.start_snapshot(imported, task_id=session.task.task_id)
    if imported.notes:
        with session.step() as step:
            for note in imported.notes:
                step.append(Event(name="source.noted", run_id=session.run.run_id, detail=note))
    if session.task.spec.setup is not None:
        return set_up_task(session, untouched, image_id=image_id, setups=setups)
    with session.step() as step:
        record_start(step, untouched)
    return untouched


def _import(spec: RepositorySpec, host: SandboxHost) -> ImportedSource:
    if spec.imported is None:
        return host.import_source(make_source(spec))
    return ImportedSource(
        repository_id=RepositoryId(spec.imported.repository_id),
        commit=CommitId(spec.imported.commit),
        history=History(spec.history),
        notes=spec.imported.notes,
    )
