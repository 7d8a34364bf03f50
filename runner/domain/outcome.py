"""States of a run and outcomes of a task."""

from __future__ import annotations

from enum import StrEnum


class RunState(StrEnum):
    """Where a run is. The last four are terminal for the run, never for its session."""

    QUEUED = "queued"
    RUNNING = "running"
    WAITING = "waiting"
    AWAITING_APPROVAL = "awaiting_approval"
    NEEDS_ATTENTION = "needs_attention"
    COMPLETED = "completed"
    BUDGET_EXHAUSTED = "budget_exhausted"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def terminal(self) -> bool:
        """Tell whether the run has ended."""
        return self in TERMINAL_STATES


TERMINAL_STATES = frozenset(
    {RunState.COMPLETED, RunState.BUDGET_EXHAUSTED, RunState.FAILED, RunState.CANCELLED}
)


class Outcome(StrEnum):
    """What a task came to, from its last run."""

    VERIFIED = "verified"
    NOT_VERIFIED = "not_verified"
    #: not verified, and at least one call was denied or its changes refused
    PREVENTED = "prevented"
    TIMED_OUT = "timed_out"
    CONTEXT_EXHAUSTED = "context_exhausted"
    BUDGET_EXHAUSTED = "budget_exhausted"
    CANCELLED = "cancelled"
    #: not started by its deadline
    EXPIRED = "expired"
    AGENT_FAILED = "agent_failed"
    OUT_OF_MEMORY = "out_of_memory"
    KILLED = "killed"
    REFUSED = "refused"
    RESOURCE_LIMIT = "resource_limit"
    DISK_FULL = "disk_full"
    SANDBOX_LOST = "sandbox_lost"
    INFRASTRUCTURE_ERROR = "infrastructure_error"
    POISONED = "poisoned"

    @property
    def state(self) -> RunState:
        """The terminal state that this outcome belongs to."""
        return STATE_OF[self]


STATE_OF: dict[Outcome, RunState] = {
    Outcome.VERIFIED: RunState.COMPLETED,
    Outcome.NOT_VERIFIED: RunState.COMPLETED,
    Outcome.PREVENTED: RunState.COMPLETED,
    Outcome.TIMED_OUT: RunState.BUDGET_EXHAUSTED,
    Outcome.CONTEXT_EXHAUSTED: RunState.BUDGET_EXHAUSTED,
    Outcome.BUDGET_EXHAUSTED: RunState.BUDGET_EXHAUSTED,
    Outcome.CANCELLED: RunState.CANCELLED,
    Outcome.EXPIRED: RunState.CANCELLED,
    Outcome.AGENT_FAILED: RunState.FAILED,
    Outcome.OUT_OF_MEMORY: RunState.FAILED,
    Outcome.KILLED: RunState.FAILED,
    Outcome.REFUSED: RunState.FAILED,
    Outcome.RESOURCE_LIMIT: RunState.FAILED,
    Outcome.DISK_FULL: RunState.FAILED,
    Outcome.SANDBOX_LOST: RunState.FAILED,
    Outcome.INFRASTRUCTURE_ERROR: RunState.FAILED,
    Outcome.POISONED: RunState.FAILED,
}
