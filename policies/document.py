"""One policy file as it is written. None = the file does not write the key.

Models only: what has no meaning fails here; what is known but not enforced yet is refused in
refused.py. Layers are put together in merge.py.
"""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import PurePosixPath
from typing import Annotated, Literal, TypeAlias

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    WithJsonSchema,
)
from pydantic.json_schema import SkipJsonSchema

from policies.changes import ChangeKind
from policies.decision import Verdict
from policies.errors import GlobError
from policies.glob import parse_glob
from policies.limits import DiskLimit, NetworkMode, RootFilesystem

SECRET_WORDS = ("KEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIAL")
RESERVED_RULE_IDS = ("default", "tools")
RULE_ID_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9_.:\[\]-]{0,99}$"
RESERVED_TARGETS = (
    *("/workspace", "/home/agent", "/tmp", "/forkyard"),  # noqa: S108  paths in the container
    *("/proc", "/sys", "/dev", "/run"),
)
SMALLEST_CPUS = Decimal("0.001")
LARGEST_CPUS = Decimal(10_000)
MAX_NUMBER = 2**31 - 1
"""What the engine and the store hold in every field."""


def _check_glob(pattern: str) -> str:
    try:
        parse_glob(pattern)
    except GlobError as error:
        raise ValueError(str(error)) from error
    return pattern


def _check_environment_name(name: str) -> str:
    if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) is None:
        raise ValueError("expected the name of a variable: letters, digits and _")
    if any(word in name.upper() for word in SECRET_WORDS):
        raise ValueError("the name looks like a secret's, and no secret enters a container")
    return name


def _check_rule_id(rule_id: str) -> str:
    if rule_id in RESERVED_RULE_IDS:
        raise ValueError(f"{rule_id!r} already names an answer that no rule gave")
    return rule_id


def _check_absolute(path: str) -> str:
    if not path.startswith("/") or str(PurePosixPath(path)) != path or not path.isprintable():
        raise ValueError("expected an absolute path without a / at its end")
    if ".." in PurePosixPath(path).parts or path.startswith("//"):
        raise ValueError("expected a path without ..")
    return path


def _check_target(path: str) -> str:
    target = PurePosixPath(_check_absolute(path))
    for reserved in map(PurePosixPath, RESERVED_TARGETS):
        if target.is_relative_to(reserved) or reserved.is_relative_to(target):
            raise ValueError(f"would cover or lie in {reserved}, which is not the policy's")
    return path


def _check_mounts(mounts: tuple[MountPart, ...]) -> tuple[MountPart, ...]:
    targets = {mount.target for mount in mounts}
    if len(targets) != len(mounts):
        raise ValueError("two mounts have the same target")
    return mounts


def _check_version(version: int) -> int:
    if version != 1:
        raise ValueError("expected 1, the only version that this release reads")
    return version


def _read_cpus(value: object) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, (int, Decimal)):
        raise ValueError("expected a number of cores such as 1 or 0.25")  # noqa: TRY004  pydantic collects only ValueError
    cores = Decimal(value)
    if not SMALLEST_CPUS <= cores <= LARGEST_CPUS:
        raise ValueError(f"expected a number of cores from {SMALLEST_CPUS} to {LARGEST_CPUS}")
    if cores % SMALLEST_CPUS:
        raise ValueError("expected at most three digits after the point")
    return cores


def _as_tuple(value: object) -> object:
    return (value,) if isinstance(value, str) else value


def _as_path_example(value: object) -> object:
    return {"path": value} if isinstance(value, str) else value


_TOOL_PATTERN = r"^[a-z][a-z0-9_]{0,63}$"
_ENFORCED_VERDICTS = WithJsonSchema({"enum": ["allow", "deny"]})

PositiveNumber: TypeAlias = Annotated[int, Field(ge=1, le=MAX_NUMBER)]
Cpus: TypeAlias = Annotated[
    Decimal,
    BeforeValidator(_read_cpus),
    WithJsonSchema({"type": "number", "minimum": 0.001, "maximum": 10_000}),
]
GlobText: TypeAlias = Annotated[str, AfterValidator(_check_glob)]
ToolName: TypeAlias = Annotated[str, StringConstraints(pattern=_TOOL_PATTERN)]
RuleId: TypeAlias = Annotated[
    str, StringConstraints(pattern=RULE_ID_PATTERN), AfterValidator(_check_rule_id)
]
EnvironmentName: TypeAlias = Annotated[str, AfterValidator(_check_environment_name)]
EnvironmentValue: TypeAlias = Annotated[str, StringConstraints(pattern=r"^[^\x00]*$")]
AbsolutePath: TypeAlias = Annotated[str, AfterValidator(_check_absolute)]
MountTarget: TypeAlias = Annotated[str, AfterValidator(_check_target)]
# strict mode wants members, files hold text: only the choice itself is lax
Choice = Field(strict=False)
Answer: TypeAlias = Annotated[Verdict, Choice, _ENFORCED_VERDICTS]
Kind: TypeAlias = Annotated[ChangeKind, Choice]
Mode: TypeAlias = Annotated[NetworkMode, Choice, WithJsonSchema({"enum": ["none", "open"]})]
RootMode: TypeAlias = Annotated[RootFilesystem, Choice, WithJsonSchema({"const": "read-only"})]
DiskMode: TypeAlias = Annotated[DiskLimit, Choice]


class Part(BaseModel):
    """A mapping of the file: exact types, no unknown keys."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class NetworkPart(Part):
    """Where a container may connect to."""

    mode: Mode | None = None
    hosts: SkipJsonSchema[tuple[str, ...] | None] = None
    """Entries of mode allowlist; empty = nothing."""


class MountPart(Part):
    """One host path shown to the container."""

    source: AbsolutePath
    target: MountTarget
    mode: Literal["ro", "rw"] = "ro"


class EnvironmentPart(Part):
    """The container's environment beside what every container has."""

    # `pass` is a keyword of the language
    pass_: Annotated[tuple[EnvironmentName, ...] | None, Field(alias="pass")] = None
    set: dict[EnvironmentName, EnvironmentValue] | None = None


class LimitsPart(Part):
    """Numbers of `policies.limits.Limits`; same names and units, but for `cpus`."""

    memory_mib: PositiveNumber | None = None
    cpus: Cpus | None = None
    """Cores, exact to a thousandth."""
    pids: PositiveNumber | None = None
    disk_mib: PositiveNumber | None = None
    inodes: PositiveNumber | None = None
    open_files: PositiveNumber | None = None
    call_seconds: PositiveNumber | None = None
    shown_kib: PositiveNumber | None = None
    evidence_mib: PositiveNumber | None = None


class SandboxPart(Part):
    """What the container is given."""

    network: NetworkPart | None = None
    setup_network: tuple[Mode, ...] | None = None
    rootfs: RootMode | None = None
    mounts: Annotated[tuple[MountPart, ...], AfterValidator(_check_mounts)] | None = None
    env: EnvironmentPart | None = None
    limits: LimitsPart | None = None
    disk: DiskMode | None = None


class CommandMatch(Part):
    """Which tool calls a rule is about. A key that is not written matches everything."""

    tool: Annotated[
        tuple[ToolName, ...],
        BeforeValidator(_as_tuple, json_schema_input_type=str | tuple[str, ...]),
        Field(min_length=1),
    ] = ()
    paths: Annotated[tuple[GlobText, ...], Field(min_length=1)] = ()


class CommandExample(Part):
    """A tool call that a rule must, or must not, match."""

    tool: ToolName
    path: str = ""
    """Empty: the call names no path."""


class CommandExamples(Part):
    """Claims about a command rule that are checked when the policy loads."""

    match: tuple[CommandExample, ...] = ()
    no_match: tuple[CommandExample, ...] = ()


class CommandPart(Part):
    """A rule about a tool call before it runs."""

    id: RuleId
    match: CommandMatch
    then: Answer
    because: str = ""
    examples: CommandExamples = CommandExamples()


class ChangeMatch(Part):
    """Which changes a rule is about. A key that is not written matches everything."""

    paths: Annotated[tuple[GlobText, ...], Field(min_length=1)] = ()
    kinds: Annotated[tuple[Kind, ...], Field(min_length=1)] = ()
    with_ignored: bool = True
    """False: files that the base's ignore rules keep out of the patch are left out."""


class ChangeExample(Part):
    """A change that a rule must, or must not, match."""

    path: Annotated[str, Field(min_length=1)]
    kind: Kind | None = None
    """None: the first kind of the rule, or modified."""


PathExample: TypeAlias = Annotated[
    ChangeExample,
    BeforeValidator(_as_path_example, json_schema_input_type=str | ChangeExample),
]


class ChangeExamples(Part):
    """Claims about a change rule that are checked when the policy loads."""

    match: tuple[PathExample, ...] = ()
    no_match: tuple[PathExample, ...] = ()


class ChangePart(Part):
    """A rule about what really changed."""

    id: RuleId
    match: ChangeMatch
    then: Answer
    because: str = ""
    examples: ChangeExamples = ChangeExamples()


class DefaultPart(Part):
    """What is answered where no rule matches."""

    commands: Answer | None = None
    changes: Answer | None = None


class Document(Part):
    """A whole policy file."""

    version: Annotated[int, AfterValidator(_check_version), WithJsonSchema({"const": 1})] = 1
    name: Annotated[str, Field(min_length=1, max_length=100)] | None = None
    tools: tuple[ToolName, ...] | None = None
    sandbox: SandboxPart | None = None
    commands: tuple[CommandPart, ...] | None = None
    changes: tuple[ChangePart, ...] | None = None
    default: DefaultPart | None = None
