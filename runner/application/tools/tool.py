"""The port of the executor: one tool that a model may call, run inside a sandbox alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from pydantic import BaseModel

from policies import Limits
from runner.domain.calls import ToolSchema
from runner.domain.task import VerifySpec
from sandbox import CommandResult, Sandbox, StopSignal


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolContext:
    """What one call runs with."""

    sandbox: Sandbox
    limits: Limits
    timeout_seconds: float = 120
    """The most that the call may take."""
    timeout_limit: str = "call_seconds"
    """Name of the limit that sets `timeout_seconds`."""
    verify: VerifySpec | None = None
    """None = the task has no verification."""
    stop: StopSignal | None = None
    """None = nothing stops it but its time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOutput:
    """What became of one call."""

    ok: bool
    reason: str = ""
    """Empty on success; else nonzero_exit, timed_out, no_match, not_found, …"""
    text: str = ""
    """The tool's own words, at most a few lines."""
    results: tuple[CommandResult, ...] = ()
    """The commands it ran, in order; their output is shown."""
    timeout_seconds: float = 0
    """The limit that the last command had; 0 = none ran."""
    timeout_limit: str = ""
    """Name of that limit; empty when none ran."""


class Tool(Protocol):
    """One tool. Stateless: the same object serves all sessions at once."""

    @property
    def name(self) -> str:
        """How models and rules call it."""
        ...

    @property
    def schema(self) -> ToolSchema:
        """What a model is told of it."""
        ...

    @property
    def writes(self) -> bool:
        """Tell whether a call may change files, so that a snapshot is due."""
        ...

    @property
    def ends_run(self) -> bool:
        """Tell whether a successful call ends the run."""
        ...

    def parse(self, arguments_text: str) -> BaseModel:
        """Return the validated arguments.

        Raises:
            BadArgumentsError: they cannot be used; the message says how to correct them.
        """
        ...

    def paths(self, arguments: BaseModel) -> tuple[str, ...]:
        """Return the paths that the arguments name, as `normalise_path` gives them."""
        ...

    def run(self, arguments: BaseModel, context: ToolContext) -> ToolOutput:
        """Carry the call out in the sandbox.

        Raises:
            SandboxLostError, EngineUnavailableError: what stopped us from knowing.
        """
        ...
