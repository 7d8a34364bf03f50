"""Verification: the named command in a fresh container, begun when nothing of the agent is alive.

The container starts on the task's starting snapshot with the result's `source_tree` laid over it
and the named paths restored: nothing ignored that the agent made is there, nothing of its HOME.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from policies import ChangeKind, digest_json, match_path, show_path
from runner.application.command_log import LOG_BYTES, render_log, tell_ending
from runner.application.prepare_run import Prepared
from runner.application.sandbox_spec import make_verify_spec
from runner.application.session import Session
from runner.application.stopping import StopFlag
from runner.domain.records import VerifyResult
from runner.domain.task import VerifySpec
from sandbox import Command, LaidSource, Snapshot

KEPT_CHECKS = 1000
"""How many results a process remembers."""

LOOK_SECONDS = 0.2
"""How often a run that waits for another's check looks whether it was told to stop."""


@dataclass(slots=True)
class _Check:
    """One check that somebody made or is making."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    result: VerifyResult | None = None


class VerifyCache:
    """Results of checks before the agent: same files, image and command, same answer.

    Shared by the workers of one process. Thread-safe.
    """

    def __init__(self, *, most: int = KEPT_CHECKS) -> None:
        """Make an empty cache that keeps at most so many results, the newest."""
        self._most = most
        self._checks: dict[str, _Check] = {}  # a dict keeps the order
        self._guard = threading.Lock()

    def get_or_make(
        self, key: str, make: Callable[[], VerifyResult], *, stop: StopFlag
    ) -> VerifyResult:
        """Return the result of a key, made once even when many ask at the same time.

        Raises:
            RunStoppedError: the run was told to stop while another one made the result.
        """
        with self._guard:
            check = self._checks.setdefault(key, _Check())
            while len(self._checks) > self._most:
                del self._checks[next(iter(self._checks))]
        while not check.lock.acquire(timeout=LOOK_SECONDS):
            stop.check()
        try:
            if check.result is None:
                stop.check()
                check.result = make()
            return check.result
        finally:
            check.lock.release()


def verify_before(session: Session, prepared: Prepared, *, cache: VerifyCache) -> VerifyResult:
    """Run the check on the untouched starting files, so that "it passed before" is known.

    Raises:
        SandboxError: the check could not be carried out.
        RunStoppedError: the run was told to stop meanwhile.
    """
    spec = _spec_of(session)
    key = digest_json(
        [
            prepared.image_id,
            prepared.start.snapshot_id,
            spec.model_dump(mode="json"),
            session.policy.digest,
        ]
    )
    return cache.get_or_make(
        key, lambda: _check(session, prepared, spec=spec, result=None), stop=session.stop
    )


def verify_after(session: Session, prepared: Prepared) -> VerifyResult:
    """Run the check on what the agent left.

    Raises:
        SandboxError: the check could not be carried out.
        RunStoppedError: the run was told to stop meanwhile.
    """
    spec = _spec_of(session)
    forbidden = _find_forbidden(session, prepared, spec=spec)
    if forbidden:
        detail = f"new files that verification forbids: {', '.join(forbidden)}"
        return VerifyResult(passed=False, exit_code=None, runs=0, flaky=False, detail=detail)
    return _check(session, prepared, spec=spec, result=session.files)


def _spec_of(session: Session) -> VerifySpec:
    spec = session.task.spec.verify
    if spec is None:
        raise ValueError(f"task {session.task.task_id} names no verification")
    return spec


def _find_forbidden(session: Session, prepared: Prepared, *, spec: VerifySpec) -> list[str]:
    changes = session.services.host.changes_between(prepared.start, session.files)
    return [
        show_path(change.path)
        for change in changes.items
        if change.kind is ChangeKind.ADDED
        and any(match_path(pattern, change.path) for pattern in spec.forbid_new)
    ]


def _check(
    session: Session, prepared: Prepared, *, spec: VerifySpec, result: Snapshot | None
) -> VerifyResult:
    lay = None if result is None else LaidSource(snapshot=result, restore=spec.restore)
    sandbox_spec = make_verify_spec(session, prepared.image_id, start=prepared.start, lay=lay)
    clock = session.services.clock
    started = clock.monotonic()
    command = Command(
        argv=spec.argv,
        environment=tuple(sorted(spec.env.items())),
        timeout_seconds=spec.timeout_seconds,
        output_bytes=LOG_BYTES,
    )
    with session.services.host.open_sandbox(sandbox_spec) as sandbox:
        results = []
        for _ in range(spec.runs):
            results.append(sandbox.run(command, stop=session.stop))
            session.stop.check()
    with session.services.store.write(session.lease) as writer:
        log = writer.put_evidence(render_log(results))
    last, limit = results[-1], f"{spec.timeout_seconds} s (verify.timeout_seconds)"
    return VerifyResult(
        passed=all(one.ok for one in results),
        exit_code=last.exit_code,
        runs=len(results),
        flaky=len({one.ok for one in results}) > 1,
        detail="" if last.ok else tell_ending(last, limit=limit),
        log=log,
        seconds_milli=int((clock.monotonic() - started) * 1000),
    )
