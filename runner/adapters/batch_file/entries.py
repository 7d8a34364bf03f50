"""What a batch file may say, field by field; the editor's schema is made from these classes.

Everything that the format knows is here, also what this release refuses (refusals.py). A field
that is left out is None; a field may not be written empty.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    WithJsonSchema,
)
from pydantic_core import PydanticCustomError

from runner.domain.outcome import Outcome

SAFE_NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"
"""Names that become folders: no separator, no leading dot, no surprise for a shell."""

MICRO = 1_000_000
MAX_USD = 10**9
MAX_ARGUMENT_BYTES = 128 * 1024
"""What Linux gives one argument or variable, its final NUL included."""


def _to_micro_usd(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, (int, Decimal)):
        raise PydanticCustomError("money", "must be an amount in US dollars such as 2.5")
    if not 0 < value <= MAX_USD:
        raise PydanticCustomError("money", "must be above 0; leave the key out for no limit")
    micro = Decimal(value) * MICRO
    if micro != micro.to_integral_value():
        raise PydanticCustomError("money", "has more than six decimal places")
    return int(micro)


def _check_argument(text: str) -> str:
    if "\0" in text:
        raise PydanticCustomError("argument", "holds a NUL, which no program can be given")
    if len(text.encode()) >= MAX_ARGUMENT_BYTES:
        raise PydanticCustomError("argument", "is 128 KiB or longer; put it in a file")
    return text


def _check_program(argv: tuple[str, ...]) -> tuple[str, ...]:
    if not argv[0].strip():
        raise PydanticCustomError("argument", "must begin with a program's name, not with nothing")
    return argv


Usd = Annotated[
    int,
    BeforeValidator(_to_micro_usd),
    WithJsonSchema({"type": "number", "exclusiveMinimum": 0, "multipleOf": 0.000001}),
]
"""US dollars in the file, micro-USD as a value."""

Text = Annotated[str, Field(min_length=1, pattern=r"\S")]
Words = tuple[Text, ...]
Argument = Annotated[str, AfterValidator(_check_argument)]
Argv = Annotated[tuple[Argument, ...], Field(min_length=1), AfterValidator(_check_program)]
Count = Annotated[int, Field(ge=1, le=2**53)]
Environment = dict[Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")], Argument]


class Entry(BaseModel):
    """A part of the file; unknown keys and other types are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class BatchBudgetEntry(Entry):
    """Limits of the whole batch."""

    cost_usd: Usd | None = None
    tasks_parallel: Annotated[int, Field(ge=1, le=1000)] | None = None
    model_calls_parallel: Annotated[int, Field(ge=1, le=1000)] | None = None
    deadline_minutes: Count | None = None
    """Minutes after submission at which tasks that have not started expire."""


class BudgetEntry(Entry):
    """Limits of one run."""

    wall_seconds: Count | None = None
    """Counts only while the run is running."""
    model_calls: Count | None = None
    tokens: Count | None = None
    cost_usd: Usd | None = None
    tool_seconds: Count | None = None
    output_mib: Count | None = None


class BuildEntry(Entry):
    """An image that is built from a folder."""

    build: Text
    """Folder with a Dockerfile, relative to the batch file."""


class ReplyCallEntry(Entry):
    """One tool call of a scripted reply."""

    tool: Text
    arguments: dict[str, object] = Field(default_factory=dict)
    arguments_text: str | None = None
    """The exact text to send in place of `arguments`, malformed if need be."""


class ReplyEntry(Entry):
    """One scripted reply of the model."""

    text: str = ""
    calls: tuple[ReplyCallEntry, ...] = ()


class ScriptEntry(Entry):
    """The replies of a scripted agent, in order."""

    replies: Annotated[tuple[ReplyEntry, ...], Field(min_length=1)]


def _shape_tag(value: object) -> str | None:
    if isinstance(value, str):
        return "<text>"
    return "<mapping>" if isinstance(value, (dict, Entry)) else None


ImageName = Annotated[
    Annotated[Text, Tag("<text>")] | Annotated[BuildEntry, Tag("<mapping>")],
    Discriminator(
        _shape_tag,
        custom_error_type="image_shape",
        custom_error_message="must be an image name or {build: DIR}",
    ),
]
Script = Annotated[
    Annotated[Text, Tag("<text>")] | Annotated[ScriptEntry, Tag("<mapping>")],
    Discriminator(
        _shape_tag,
        custom_error_type="script_shape",
        custom_error_message="must be a file name or {replies: […]}",
    ),
]


class ScriptedAgentEntry(Entry):
    """An agent whose replies come from a script."""

    kind: Literal["scripted"]
    script: Script
    """A YAML or JSON file relative to the batch file, or the script itself."""


class ModelAgentEntry(Entry):
    """An agent that a provider's model drives."""

    kind: Literal["model"]
    provider: Text
    model: Text


class CommandAgentEntry(Entry):
    """An agent that is a program in the container."""

    kind: Literal["command"]
    argv: Argv
    goal_via: Literal["argument", "env", "stdin"] = "argument"


def _agent_tag(value: object) -> str | None:
    kind = value.get("kind") if isinstance(value, dict) else getattr(value, "kind", None)
    return f"<{kind}>" if isinstance(kind, str) else None


AgentEntry = Annotated[
    Annotated[ScriptedAgentEntry, Tag("<scripted>")]
    | Annotated[ModelAgentEntry, Tag("<model>")]
    | Annotated[CommandAgentEntry, Tag("<command>")],
    Discriminator(
        _agent_tag,
        custom_error_type="agent_kind",
        custom_error_message="kind must be scripted, model or command",
    ),
]


class SetupEntry(Entry):
    """A command whose effect on the files is where tasks start; run once for equal tasks."""

    argv: Argv
    env: Environment | None = None
    network: Literal["none", "open"] | None = None
    """What the policy's `sandbox.setup_network` allows; none where it is left out."""
    timeout_seconds: Count | None = None


class VerifyEntry(Entry):
    """The command whose exit code says whether a task is done."""

    argv: Argv | None = None
    env: Environment | None = None
    restore: Words | None = None
    """Globs that the starting snapshot overrides before the check."""
    forbid_new: Words | None = None
    """Names that the agent may not have added."""
    timeout_seconds: Count | None = None
    runs: Annotated[int, Field(ge=1, le=100)] | None = None


class RepositoryEntry(Entry):
    """Where a task's files come from; one of path, url and archive."""

    path: Text | None = None
    """Relative to the batch file."""
    url: Text | None = None
    archive: Text | None = None
    ref: (
        (Annotated[str, Field(pattern=r"^[^-\s]\S*$"), AfterValidator(_check_argument)]) | None
    ) = None
    history: Literal["full", "shallow"] | None = None
    trusted: bool | None = None
    include: Words | None = None
    """With path: `uncommitted`, `untracked`, and globs of ignored files to take all the same."""


class ConstraintEntry(Entry):
    """Something the user demands, kept verbatim."""

    text: Text
    protect: Words = ()
    """Globs of workspace paths that must not change."""
    forbid: Literal["delete"] | None = None


class RaceEntry(Entry):
    """Several tries of one task at once."""

    count: Annotated[int, Field(ge=2, le=1000)]
    stop_after: Count | None = None


class SharedEntry(Entry):
    """What a task says, or the defaults say for it."""

    repo: RepositoryEntry | None = None
    image: ImageName | None = None
    policy: Text | None = None
    agent: AgentEntry | None = None
    budget: BudgetEntry | None = None
    setup: SetupEntry | None = None
    verify: VerifyEntry | None = None
    constraints: tuple[ConstraintEntry, ...] | None = None
    expect: (
        Annotated[tuple[Annotated[Outcome, Field(strict=False)], ...], Field(min_length=1)] | None
    ) = None
    """Outcomes that are as wanted; decides the exit code."""
    race: RaceEntry | None = None


class TaskEntry(SharedEntry):
    """One task."""

    id: Annotated[str, Field(pattern=SAFE_NAME)]
    goal: Text


Retryable = Literal[
    "infrastructure_error",
    "sandbox_lost",
    "out_of_memory",
    "killed",
    "agent_failed",
    "disk_full",
    "resource_limit",
    "timed_out",
]


class BatchEntry(Entry):
    """A whole batch file."""

    version: Literal[1]
    name: Annotated[str, Field(pattern=SAFE_NAME)]
    budget: BatchBudgetEntry | None = None
    retries: dict[Retryable, Annotated[int, Field(ge=0, le=10)]] | None = None
    """How often a task with one of these outcomes gets a new run."""
    defaults: SharedEntry | None = None
    tasks: Annotated[tuple[TaskEntry, ...], Field(min_length=1, max_length=100_000)]
