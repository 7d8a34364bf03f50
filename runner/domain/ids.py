"""Ids: a kind letter and 20 random base32 characters. Order is by created_at, never by id."""

from __future__ import annotations

import base64
from typing import NewType

BatchId = NewType("BatchId", str)
TaskId = NewType("TaskId", str)
SessionId = NewType("SessionId", str)
RunId = NewType("RunId", str)
MessageId = NewType("MessageId", str)
CallId = NewType("CallId", str)
EvidenceId = NewType("EvidenceId", str)
"""`sha256:…` of the bytes."""

SetupKey = NewType("SetupKey", str)
"""`sha256:…` of all that decides what a setup leaves."""

KIND_LETTERS = {"batch": "b", "task": "t", "session": "s", "run": "r", "message": "m", "call": "c"}

RANDOM_BYTES = 13  # 20 base32 characters carry 100 bits; 13 bytes give them


def make_id(kind: str, entropy: bytes) -> str:
    """Make an id of a kind from at least 13 random bytes.

    Raises:
        KeyError: the kind is unknown.
        ValueError: too few bytes.
    """
    if len(entropy) < RANDOM_BYTES:
        raise ValueError(f"{len(entropy)} random bytes, {RANDOM_BYTES} needed")
    return KIND_LETTERS[kind] + base64.b32encode(entropy[:RANDOM_BYTES]).decode().lower()[:20]
