"""Rollout items: one line each, append-only, chained by hash.

A stored item is `{"schema", "seq", "kind", "at", "message_id"?, "payload", "prev", "hash"}` in
canonical JSON; `hash` covers all the other keys, `prev` is the former item's hash (empty for the
first). The bytes of a line are what counts: they are kept, compared and hashed as they are.
Payload classes are pydantic: they are read back from files that people carry around.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from policies import CanonicalFormError, Json, canonical_json, digest_bytes
from runner.domain.ids import CallId, EvidenceId, MessageId, RunId, SessionId, TaskId
from runner.domain.instant import parse_instant, show_instant
from runner.domain.task import Strict
from runner.errors import DamagedRolloutError

SCHEMA = 1
"""Version of the line format; a newer one is refused."""


class Kind(StrEnum):
    """Kinds of rollout items that this release writes."""

    SESSION_META = "session_meta"
    USER_MESSAGE = "user_message"
    ASSISTANT_MESSAGE = "assistant_message"
    TOOL_RESULT = "tool_result"
    FRAGMENT = "fragment"
    WORLD_STATE = "world_state"
    TURN_CONTEXT = "turn_context"
    CONSTRAINT = "constraint"
    TOKEN_USAGE = "token_usage"  # noqa: S105  a kind, not a secret
    SNAPSHOT = "snapshot"
    DECISION = "decision"
    EXECUTION = "execution"
    EVENT = "event"


class SessionMeta(Strict):
    """First item: whose session this is."""

    kind: Literal[Kind.SESSION_META] = Kind.SESSION_META
    session_id: SessionId
    task_id: TaskId
    task_name: str
    forkyard_version: str


class UserMessage(Strict):
    """Something a person said."""

    kind: Literal[Kind.USER_MESSAGE] = Kind.USER_MESSAGE
    text: str


class StoredCall(Strict):
    """A tool call of an assistant message."""

    call_id: CallId
    provider_call_id: str
    name: str
    arguments: str
    """The exact text received, cleaned of what no store carries."""


class AssistantMessage(Strict):
    """What the model answered, stored before anything of it runs."""

    kind: Literal[Kind.ASSISTANT_MESSAGE] = Kind.ASSISTANT_MESSAGE
    text: str
    calls: tuple[StoredCall, ...] = ()
    stop: str
    provider_request_id: str = ""


class ToolStatus(StrEnum):
    """How a tool call ended for the model."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    DENIED = "denied"
    UNKNOWN = "unknown"


class ToolResult(Strict):
    """The one result of a tool call."""

    kind: Literal[Kind.TOOL_RESULT] = Kind.TOOL_RESULT
    call_id: CallId
    status: ToolStatus
    reason: str = ""
    """changes_refused, timed_out, bad_arguments, unknown_tool, …; empty on success."""
    text: str
    """What the model is shown."""
    evidence: EvidenceId | None = None
    """The kept output, when more than was shown exists; None otherwise."""
    total_bytes: int = 0
    """Bytes of output produced, also those that were not kept."""


class FragmentItem(Strict):
    """Typed, marked injected context."""

    kind: Literal[Kind.FRAGMENT] = Kind.FRAGMENT
    fragment: str
    """Stable kind `<feature>.<name>`."""
    role: str
    text: str


class WorldStateItem(Strict):
    """What the model has been told of one section; follows its fragment."""

    kind: Literal[Kind.WORLD_STATE] = Kind.WORLD_STATE
    section: str
    value: str
    """Canonical JSON text."""


class TurnContext(Strict):
    """How one request was built, written before it is sent."""

    kind: Literal[Kind.TURN_CONTEXT] = Kind.TURN_CONTEXT
    run_id: RunId
    adapter: str
    renderer: int
    """Version of the adapter's renderer."""
    model: str
    instructions: EvidenceId
    tools: EvidenceId
    """Canonical JSON list of tool schemas."""
    max_output_tokens: int
    body_digest: str
    """`sha256:…` of the bytes handed to the HTTP client."""
    body_bytes: int


class ConstraintItem(Strict):
    """Something the user demanded, verbatim."""

    kind: Literal[Kind.CONSTRAINT] = Kind.CONSTRAINT
    text: str
    source_message: MessageId | None = None
    """None = from the batch file."""


class TokenUsage(Strict):
    """What one model call used; null = not reported."""

    kind: Literal[Kind.TOKEN_USAGE] = Kind.TOKEN_USAGE
    input_tokens: int | None
    output_tokens: int | None
    cost_micro_usd: int | None


class SnapshotItem(Strict):
    """The files as they are from here on."""

    kind: Literal[Kind.SNAPSHOT] = Kind.SNAPSHOT
    snapshot_id: str
    content_id: str
    call_id: CallId | None = None
    """The call that made it; None for the starting snapshot."""
    changes_digest: str = ""


class DecisionItem(Strict):
    """What the rules said of a call or of its changes."""

    kind: Literal[Kind.DECISION] = Kind.DECISION
    call_id: CallId
    subject: str
    """action or changes."""
    subject_digest: str
    verdict: str
    rule: str
    reasons: tuple[str, ...] = ()
    also_matched: tuple[str, ...] = ()
    policy_digest: str


class ExecutionItem(Strict):
    """One step of an execution in the ledger."""

    kind: Literal[Kind.EXECUTION] = Kind.EXECUTION
    call_id: CallId
    run_id: RunId
    state: str
    attempt: int
    ending: str = ""
    exit_code: int | None = None
    wall_milliseconds: int = 0
    detail: str = ""


class Event(Strict):
    """Something that happened to the run: past tense, never shown to the model."""

    kind: Literal[Kind.EVENT] = Kind.EVENT
    name: str
    """`run.started`, `sandbox.lost`, …"""
    run_id: RunId | None = None
    """None = concerns the session."""
    detail: str = ""


Payload = Annotated[
    SessionMeta
    | UserMessage
    | AssistantMessage
    | ToolResult
    | FragmentItem
    | WorldStateItem
    | TurnContext
    | ConstraintItem
    | TokenUsage
    | SnapshotItem
    | DecisionItem
    | ExecutionItem
    | Event,
    Field(discriminator="kind"),
]

_PAYLOADS: TypeAdapter[Payload] = TypeAdapter(Payload)


class _Line(BaseModel):
    """What stands around a payload; nothing is converted, nothing else may stand there."""

    model_config = ConfigDict(extra="forbid", strict=True)

    version: Literal[1] = Field(alias="schema")
    seq: int
    kind: str
    at: str
    message_id: str = ""
    payload: dict[str, object]
    prev: str
    hash: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NewItem:
    """An item before it has a place in a rollout."""

    payload: Payload
    message_id: MessageId | None = None
    """Globally unique; set on what a person or a fork can point at, None otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutItem:
    """An item in its place; made by chain_item and parse_line alone."""

    seq: int
    """From 1, without gaps."""
    at: datetime
    message_id: MessageId | None
    payload: Payload
    prev: str
    hash: str
    line: bytes = field(repr=False)
    """The canonical JSON line as written, without a line end. Kept, since a payload class that
    grew a field since then would render another line."""

    @property
    def kind(self) -> Kind:
        """The payload's kind."""
        return self.payload.kind

    def to_line(self) -> bytes:
        """Return the canonical JSON line, without a line end."""
        return self.line


def chain_item(new: NewItem, *, seq: int, at: datetime, prev: str) -> RolloutItem:
    """Give an item its place after the item with hash `prev`.

    Raises:
        CanonicalFormError: a text holds a lone surrogate; clean it where it enters.
        ValueError: the instant is naive.
    """
    line: dict[str, Json] = {
        "schema": SCHEMA,
        "seq": seq,
        "kind": new.payload.kind.value,
        "at": show_instant(at),
        "payload": new.payload.model_dump(mode="json"),
        "prev": prev,
    }
    if new.message_id is not None:
        line["message_id"] = new.message_id
    digest = digest_bytes(canonical_json(line))
    line["hash"] = digest
    return RolloutItem(
        seq=seq,
        at=at.astimezone(UTC),
        message_id=new.message_id,
        payload=new.payload,
        prev=prev,
        hash=digest,
        line=canonical_json(line),
    )


def parse_line(line: bytes, *, session_id: SessionId, seq: int) -> RolloutItem:
    """Decode one line and check that it is, byte for byte, what was hashed.

    Raises:
        DamagedRolloutError: not canonical JSON, of a newer schema, of an unknown kind, or the
            seq or the hash differs.
    """
    try:
        raw = json.loads(line.decode("utf-8"))
        problem = _find_problem(raw, line=line, seq=seq)
        if problem:
            raise DamagedRolloutError(session_id, seq, problem)
        payload = _PAYLOADS.validate_python(raw["payload"])
        if payload.kind != raw["kind"]:
            raise DamagedRolloutError(
                session_id, seq, f"kind {raw['kind']!r} is not its payload's"
            )
        return RolloutItem(
            seq=seq,
            at=parse_instant(raw["at"]),
            message_id=raw.get("message_id"),
            payload=payload,
            prev=raw["prev"],
            hash=raw["hash"],
            line=line,
        )
    except (ValueError, LookupError, TypeError, RecursionError, CanonicalFormError) as error:
        raise DamagedRolloutError(session_id, seq, f"not a rollout item: {error}") from error


def _find_problem(raw: dict[str, Json], *, line: bytes, seq: int) -> str:
    """Return what is wrong with a decoded line, or nothing.

    Raises:
        ValueError, LookupError, TypeError: it has another form.
    """
    schema = raw["schema"]
    if isinstance(schema, int) and schema > SCHEMA:
        return f"schema {schema} is newer than ours"
    _Line.model_validate(raw)
    if raw["seq"] != seq:
        return f"seq {raw['seq']!r} stands where {seq} belongs"
    if canonical_json(raw) != line:
        return "the line is not in canonical form"
    hashed = {key: value for key, value in raw.items() if key != "hash"}
    if digest_bytes(canonical_json(hashed)) != raw["hash"]:
        return "the hash does not fit the content"
    return ""
