"""Canonical JSON and digests: one byte form for everything that is hashed.

UTF-8, keys sorted by code point, no white space, no floats, no NaN, no lone surrogates.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from policies.errors import CanonicalFormError

Json: TypeAlias = "bool | int | str | Sequence[Json] | Mapping[str, Json] | None"

_ENCODER = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":")
)


def canonical_json(value: Json) -> bytes:
    """Return the one byte form of a JSON value.

    Raises:
        CanonicalFormError: the value holds a float, bytes, a lone surrogate, a key that is not
            a string, or any other type without a canonical form.
    """
    _check(value, "")
    try:
        return _ENCODER.encode(value).encode("utf-8")
    except UnicodeEncodeError as error:
        raise CanonicalFormError("", "a lone surrogate; clean the text where it enters") from error


def digest_bytes(data: bytes) -> str:
    """Return `sha256:` and the lower-case hexadecimal digest of the bytes."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


def digest_json(value: Json) -> str:
    """Return the digest of the canonical form of a JSON value."""
    return digest_bytes(canonical_json(value))


def _check(value: object, where: str) -> None:
    if value is None or isinstance(value, (bool, int, str)):
        return
    if isinstance(value, Mapping):
        for key, member in value.items():
            if not isinstance(key, str):
                raise CanonicalFormError(where, f"a key of type {type(key).__name__}")
            _check(member, f"{where}.{key}" if where else key)
        return
    if isinstance(value, (list, tuple)):
        for index, member in enumerate(value):
            _check(member, f"{where}[{index}]")
        return
    raise CanonicalFormError(where, f"a value of type {type(value).__name__}")
