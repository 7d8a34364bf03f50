"""One claimed run with its rollout in memory; every write is one transaction under the lease."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from policies import NetworkMode, Policy
from runner.application.ports.store import StoreWriter
from runner.application.services import Services
from runner.application.stopping import StopFlag
from runner.domain.budget import Usage
from runner.domain.ids import MessageId
from runner.domain.items import NewItem, Payload, RolloutItem
from runner.domain.outcome import RunState
from runner.domain.records import Lease, Run, Task
from sandbox import Snapshot, SnapshotError


class Session:
    """The state that the steps of a run share. Used by the one thread that works on the run."""

    def __init__(
        self,
        services: Services,
        task: Task,
        run: Run,
        *,
        lease: Lease,
        policy: Policy,
        stop: StopFlag,
    ) -> None:
        self.services = services
        self.task = task
        self.run = run
        self.lease = lease
        self.policy = policy
        self.stop = stop
        with services.store.read() as view:
            self.items: list[RolloutItem] = list(view.list_items(task.session_id))
        self._files: Snapshot | None = None
        self._ticking_since: float | None = None

    @property
    def files(self) -> Snapshot:
        """The session's last snapshot.

        Raises:
            SnapshotError: the run is not prepared yet.
        """
        if self._files is None:
            raise SnapshotError(f"task {self.task.task_id} has no snapshot yet")
        return self._files

    @files.setter
    def files(self, snapshot: Snapshot) -> None:
        self._files = snapshot

    @contextmanager
    def step(self) -> Iterator[Step]:
        """Open the transaction of one durable point; the run's row and clock go with it.

        Raises:
            StaleLeaseError: someone else owns the run; nothing was written.
        """
        with self.services.store.write(self.lease) as writer:
            step = Step(writer, self)
            yield step
            placed = writer.append_items(
                self.task.session_id, step.news, at=self.services.clock.now()
            )
            run = self._with_clock(step.run)
            if step.anchor:
                items, head = writer.count_items(self.task.session_id)
                run = replace(run, items=items, head=head)
            writer.save_run(run, expected=self.run.state)
            if step.follow_up is not None:
                writer.add_run(step.follow_up)
        self.run = run
        self.items.extend(placed)

    @contextmanager
    def ticking(self) -> Iterator[None]:
        """Let the run's wall clock run inside the block."""
        self.start_clock()
        try:
            yield
        finally:
            self.stop_clock()

    def start_clock(self) -> None:
        """Let the run's wall clock run from now on."""
        self._ticking_since = self.services.clock.monotonic()

    def stop_clock(self) -> None:
        """Stop the wall clock; what has passed is written with the next step."""
        usage = self._usage_now(self.run.usage)
        self.run = replace(self.run, usage=usage)
        self._ticking_since = None

    @property
    def wall_seconds_left(self) -> float:
        """Seconds until the wall-clock limit; a large number when there is none."""
        limit = self.task.spec.budget.wall_seconds
        if not limit:
            return float(10**9)
        return limit - self._usage_now(self.run.usage).wall_milliseconds / 1000

    def seconds_for_a_call(self, call_seconds: int) -> tuple[float, str]:
        """Return how long one call may take now, and the name of the limit that says so."""
        budget = self.task.spec.budget
        choices = [(float(call_seconds), "call_seconds"), (self.wall_seconds_left, "wall_seconds")]
        if budget.tool_seconds:
            left = budget.tool_seconds - self.run.usage.tool_milliseconds / 1000
            choices.append((left, "tool_seconds"))
        seconds, name = min(choices)
        return max(seconds, 1.0), name

    @property
    def reaches_outside(self) -> bool:
        """Tell whether a call of this session may have effects beyond its files."""
        sandbox = self.policy.sandbox
        writable = any(mount.writable for mount in sandbox.mounts)
        return writable or sandbox.network.mode is not NetworkMode.NONE

    def current_usage(self) -> Usage:
        """Return the usage including the time since the last step."""
        return self._usage_now(self.run.usage)

    def _with_clock(self, run: Run) -> Run:
        run = replace(run, usage=self._usage_now(run.usage))
        if self._ticking_since is not None:
            self._ticking_since = self.services.clock.monotonic()
        return run

    def _usage_now(self, usage: Usage) -> Usage:
        if self._ticking_since is None:
            return usage
        passed = self.services.clock.monotonic() - self._ticking_since
        return usage.plus(wall_milliseconds=int(passed * 1000))


class Step:
    """What goes into one transaction."""

    def __init__(self, writer: StoreWriter, session: Session) -> None:
        self.writer = writer
        self.run = session.run
        self.news: list[NewItem] = []
        self.anchor = False
        """Write length and head hash of the rollout into the run's row."""
        self.follow_up: Run | None = None
        """The task's next run, queued once this one has ended; None = there is none."""
        self._services = session.services

    def append(self, *payloads: Payload) -> None:
        """Append items that nobody needs to point at."""
        self.news.extend(NewItem(payload=payload) for payload in payloads)

    def append_message(self, payload: Payload) -> MessageId:
        """Append an item with a message id of its own and return the id."""
        message_id = MessageId(self._services.make_id("message"))
        self.news.append(NewItem(payload=payload, message_id=message_id))
        return message_id

    def move_run(self, state: RunState, *, reason: str = "") -> None:
        """Put the run into another state."""
        self.run = replace(self.run, state=state, reason=reason)

    def use(self, **more: int) -> None:
        """Add to the run's usage; names as the fields of Usage."""
        self.run = replace(self.run, usage=self.run.usage.plus(**more))
