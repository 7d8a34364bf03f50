"""Errors of the runner package.

RunnerError
├── BatchFileError       a batch file that cannot be used: file, line, field, way out
├── UsageError           a command line that asks for nothing possible
├── NotFoundError        an id that names nothing (or nothing the caller may see)
├── ConflictError        busy, already decided, or changed meanwhile
│   ├── StaleLeaseError      someone else owns the run now: stop and touch nothing
│   └── StaleVersionError    the row moved since it was read
├── FlaggedPathsError    a change of files that the user's tools execute, not yet accepted
├── StoreError           the store failed
│   ├── StoreUnusableError   it cannot be opened safely: file system, version, permissions
│   ├── StoreBusyError       others kept it locked for too long: try again
│   ├── StoreFullError       no space left: nothing of the transaction was kept
│   └── DamagedRolloutError  a rollout is not what was written: names seq and offset
├── ModelError           a model call gave nothing usable
│   ├── ModelUnavailableError    retry later (time-out, 429, 5xx, cut stream)
│   ├── ModelRefusedError        the model declined: final
│   └── ModelRequestError        the provider rejects the request: final
├── ScriptError          a script of replies that cannot be played: place and way out
├── SetupFailedError     a task's setup did not pass: nothing of the agent's
├── BadArgumentsError    a tool call's arguments that cannot be used: told to the model
├── ResultsError         the folder of results cannot be written
└── MissingError         the environment lacks something: exit code 3
"""

from __future__ import annotations

from collections.abc import Sequence

from policies import FlaggedPath, show_path


class RunnerError(Exception):
    """Anything that the runner reports to a person."""

    code = "error"
    """Stable name in JSON errors."""


class BatchFileError(RunnerError):
    """A batch file says something that cannot be done."""

    code = "batch_file"

    def __init__(
        self,
        file: str,
        line: int,
        field: str,
        problem: str,
        *,
        others: tuple[BatchFileError, ...] = (),
    ) -> None:
        self.file = file
        self.line = line
        self.field = field
        self.problem = problem
        self.others = others
        """Further problems of the same reading, in the order of lines."""
        own = f"{file}:{line}: {field or 'file'}: {problem}"
        super().__init__("\n".join([own, *(str(one) for one in others)]))


class UsageError(RunnerError):
    """The command line or a request asks for nothing possible."""

    code = "usage"


class NotFoundError(RunnerError):
    """An id names nothing here."""

    code = "not_found"

    def __init__(self, kind: str, name: str, *, place: str = "") -> None:
        self.kind = kind
        self.name = name
        """Empty: there is none of the kind at all."""
        where = f" in {place}" if place else ""
        super().__init__(f"no {kind} {name!r}{where}" if name else f"no {kind} yet{where}")


class ConflictError(RunnerError):
    """Busy, already decided, or changed meanwhile."""

    code = "conflict"


class StaleLeaseError(ConflictError):
    """The lease on a run has passed to someone else."""

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        super().__init__(f"the lease on run {run_id} is no longer ours")


class StaleVersionError(ConflictError):
    """A row moved since it was read."""

    def __init__(self, kind: str, name: str, expected: str, found: str) -> None:
        self.kind = kind
        self.name = name
        self.expected = expected
        self.found = found
        super().__init__(f"{kind} {name}: expected {expected}, found {found}")


class FlaggedPathsError(RunnerError):
    """A change would put files into a checkout that the user's own tools execute or obey."""

    code = "flagged"

    def __init__(self, flagged: Sequence[FlaggedPath]) -> None:
        self.flagged = tuple(flagged)
        shown = [f"{show_path(one.path)!r} ({one.tool}: {one.reason})" for one in flagged[:20]]
        more = [f"and {len(flagged) - 20} more"] if len(flagged) > 20 else []
        listed = "; ".join([*shown, *more])
        super().__init__(
            f"nothing was written: your own tools execute or obey {listed}; look at them with"
            " `forkyard task diff`, then add --accept-flagged"
        )


class StoreError(RunnerError):
    """The store failed."""

    code = "store"


class StoreUnusableError(StoreError):
    """The store cannot be opened safely."""


class StoreBusyError(StoreError):
    """Others kept the store locked for too long; trying again may help."""


class StoreFullError(StoreError):
    """No space is left; nothing of the transaction was kept."""


class DamagedRolloutError(StoreError):
    """A rollout is not what was written."""

    def __init__(
        self, session_id: str, seq: int, problem: str, *, offset: int | None = None
    ) -> None:
        self.session_id = session_id
        self.seq = seq
        self.problem = problem
        self.offset = offset
        """Byte at which the item starts in the text that was read; None = not read from text."""
        place = f"item {seq}" if offset is None else f"item {seq} at byte {offset}"
        super().__init__(f"session {session_id}, {place}: {problem}")


class ModelError(RunnerError):
    """A model call gave nothing usable."""

    code = "model"


class ModelUnavailableError(ModelError):
    """The provider did not answer whole; trying again may help."""


class ModelRefusedError(ModelError):
    """The model declined to answer."""


class ModelRequestError(ModelError):
    """The provider rejects the request; sending it again cannot help."""


class ScriptError(RunnerError):
    """A script of replies says something that cannot be played."""

    code = "script"

    def __init__(self, where: str, problem: str) -> None:
        self.where = where
        self.problem = problem
        super().__init__(f"{where or 'script'}: {problem}")


class SetupFailedError(RunnerError):
    """The command that prepares a task's files did not pass; trying again may help."""

    code = "setup_failed"

    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__(f"the setup failed: {problem} (setup.log)")


class BadArgumentsError(RunnerError):
    """The arguments of a tool call cannot be used; the message says how to correct them."""

    code = "bad_arguments"

    def __init__(self, tool: str, problems: tuple[str, ...], *, expected: str) -> None:
        self.tool = tool
        self.problems = problems
        self.expected = expected
        listed = "; ".join(problems)
        super().__init__(f"The arguments of {tool!r} cannot be used: {listed}. {expected}")


class ResultsError(RunnerError):
    """The folder of results cannot be written."""

    code = "results"

    def __init__(self, path: str, problem: str) -> None:
        self.path = path
        self.problem = problem
        super().__init__(f"results {path!r}: {problem}")


class MissingError(RunnerError):
    """The environment lacks something that a person has to supply."""

    code = "missing"
