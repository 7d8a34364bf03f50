"""A batch and its tasks, as the batch file says and as the store keeps them."""

from __future__ import annotations

from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field

from runner.domain.budget import Budget
from runner.domain.outcome import Outcome

BUILD_PREFIX = "build:"
"""`TaskSpec.image` of an image built from a folder: the prefix and the folder's absolute path."""


class Strict(BaseModel):
    """A frozen value that refuses unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class AgentKind(StrEnum):
    """Who does the work."""

    #: replies from a script, served in the wire format of a real provider
    SCRIPTED = "scripted"
    #: a provider's model
    MODEL = "model"
    #: a program in the container
    COMMAND = "command"


class AgentSpec(Strict):
    """The agent of a task."""

    kind: AgentKind
    script: str = ""
    """Canonical JSON of the script (kind scripted), embedded when the batch is read."""
    provider: str = ""
    model: str = ""


class ImportedSpec(Strict):
    """What a repository was when the batch was submitted: later changes of it do not matter."""

    repository_id: str
    commit: str
    notes: tuple[str, ...] = ()
    """What a user should know of the files."""


class RepositorySpec(Strict):
    """The repository of a task, locations absolute."""

    kind: str
    """path, url or archive."""
    location: str
    ref: str = "HEAD"
    history: str = "full"
    trusted: bool = False
    include: tuple[str, ...] = ()
    """`uncommitted`, `untracked` and globs of ignored files (kind path)."""
    imported: ImportedSpec | None = None
    """None = when the first run starts: a URL, an archive, or what could not be imported."""


class ConstraintSpec(Strict):
    """Something the user demands, kept verbatim; may be enforced by rules."""

    text: str
    protect: tuple[str, ...] = ()
    """Globs of workspace paths that must not change."""
    forbid: str = ""
    """`delete`, or empty."""


class SetupSpec(Strict):
    """The command whose effect on the files is where a task starts."""

    argv: tuple[str, ...]
    env: dict[str, str] = Field(default_factory=dict)
    network: str = "none"
    """none or open; allowed by the policy when the batch was read."""
    timeout_seconds: int = 600


class VerifySpec(Strict):
    """The command whose exit code says whether a task is done."""

    argv: tuple[str, ...]
    env: dict[str, str] = Field(default_factory=dict)
    restore: tuple[str, ...] = ()
    forbid_new: tuple[str, ...] = ()
    timeout_seconds: int = 300
    runs: int = 1


class BudgetSpec(Strict):
    """A run's budget in the file's own units."""

    wall_seconds: int = 1800
    model_calls: int = 60
    tokens: int = 400_000
    cost_micro_usd: int = 0
    tool_seconds: int = 900
    output_mib: int = 64

    def to_budget(self) -> Budget:
        """Return the domain's budget."""
        return Budget(**self.model_dump())


class TaskSpec(Strict):
    """One task with the batch's defaults already applied."""

    name: str
    """`id` in the batch file; unique in it."""
    goal: str
    repo: RepositorySpec
    image: str
    policy: str
    """Canonical JSON text of the merged policy document, fixed when the batch is submitted."""
    agent: AgentSpec
    budget: BudgetSpec = BudgetSpec()
    constraints: tuple[ConstraintSpec, ...] = ()
    setup: SetupSpec | None = None
    verify: VerifySpec | None = None
    expect: tuple[Outcome, ...] = (Outcome.VERIFIED,)


class BatchBudget(Strict):
    """Limits of a whole batch; 0 = no limit."""

    cost_micro_usd: int = 0
    tasks_parallel: int = 4
    model_calls_parallel: int = 6
    deadline_minutes: int = 0


class BatchSpec(Strict):
    """A batch file after reading, ready to be stored."""

    name: str
    file: str
    """Absolute path of the file it was read from."""
    budget: BatchBudget = BatchBudget()
    retries: dict[Outcome, int] = Field(default_factory=dict)
    """How often a task with one of these outcomes gets a new run."""
    tasks: tuple[TaskSpec, ...]
