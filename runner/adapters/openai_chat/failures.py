"""What went wrong between us and a provider, as our own errors: the one place that knows httpx.

Messages never hold a key: of an exception only the kind is told, and the key's value is cut out
of what a provider says.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

import httpx

from runner.domain.text import decode_output
from runner.errors import (
    ModelError,
    ModelRefusedError,
    ModelRequestError,
    ModelUnavailableError,
)

SHOWN_CHARACTERS = 300
"""How much of a provider's words an error repeats."""

RETRIED_STATUSES = frozenset(
    {
        408,  # RFC 9110 §15.5.9: request time-out
        409,  # a lock at the provider; OpenAI's own clients repeat it
        425,  # RFC 8470: too early
        429,  # RFC 6585: too many requests
    }
)
"""And every status from 500 on."""

FINAL_CODES = frozenset({"insufficient_quota", "billing_hard_limit_reached"})
"""Codes of a 429 that waiting does not cure."""

REFUSAL_CODES = frozenset({"content_filter", "content_policy_violation"})

NOT_SENT: tuple[type[httpx.HTTPError | httpx.InvalidURL], ...] = (
    httpx.LocalProtocolError,
    httpx.UnsupportedProtocol,
    httpx.TooManyRedirects,
    httpx.HTTPStatusError,
    httpx.InvalidURL,
)
"""The request or its address is wrong; again will not help."""

NO_ANSWER: tuple[type[httpx.HTTPError], ...] = (
    httpx.TimeoutException,
    httpx.NetworkError,
    httpx.RemoteProtocolError,
    httpx.ProxyError,
    httpx.DecodingError,
)
"""The answer did not come, or did not come whole."""

FOREIGN = (httpx.HTTPError, httpx.InvalidURL)
"""All that a request may raise that is not a bug of ours."""


@dataclass(frozen=True, slots=True)
class Failure:
    """One attempt that gave no reply."""

    error: ModelError
    """ModelUnavailableError = another attempt may help."""
    retry_after: str = ""
    """The provider's header; empty where it sent none."""


def translate(error: httpx.HTTPError | httpx.InvalidURL) -> ModelError:
    """Return our error for one of httpx; only its kind is told, its text may quote headers."""
    kind = type(error).__name__
    if isinstance(error, NOT_SENT):
        return ModelRequestError(f"the request could not be sent ({kind})")
    return ModelUnavailableError(f"no whole answer from the provider ({kind})")


def status_failure(status: int, data: bytes, *, retry_after: str) -> Failure:
    """Return what an answer with a status other than 200 means."""
    code, message = _error_of(_decode(data))
    told = f"the provider answered {status}: {message or _excerpt(data)}"
    if code in REFUSAL_CODES:
        return Failure(ModelRefusedError(told))
    retried = status in RETRIED_STATUSES or status >= 500
    if retried and code not in FINAL_CODES:
        return Failure(ModelUnavailableError(told), retry_after)
    return Failure(ModelRequestError(told))


def error_in_answer(value: object) -> Failure | None:
    """Return the failure that a body of status 200 reports, or None where it reports none."""
    if not isinstance(value, dict) or not value.get("error") or value.get("choices"):
        return None
    code, message = _error_of(value)
    told = f"the provider answered 200 with an error: {message or code or 'no message'}"
    if code in REFUSAL_CODES:
        return Failure(ModelRefusedError(told))
    if code in FINAL_CODES or (code.isascii() and code.isdigit() and _is_final(int(code))):
        return Failure(ModelRequestError(told))
    return Failure(ModelUnavailableError(told))


def unusable(problem: str, data: bytes) -> Failure:
    """Return the failure of an answer that is whole but makes no sense."""
    return Failure(ModelUnavailableError(f"{problem}: {_excerpt(data)}"))


def without_key(failure: Failure, key: str) -> Failure:
    """Return the failure with the key's value cut out of its words."""
    told = str(failure.error)
    if not key or key not in told:
        return failure
    return Failure(type(failure.error)(told.replace(key, "[key]")), failure.retry_after)


def _is_final(status: int) -> bool:
    return 400 <= status < 500 and status not in RETRIED_STATUSES


def _decode(data: bytes) -> object:
    try:
        value: object = json.loads(decode_output(data).text)
    except (ValueError, RecursionError):
        return None
    return value


def _error_of(value: object) -> tuple[str, str]:
    """Return code and message of an error body; empty where there are none."""
    error = value.get("error") if isinstance(value, dict) else None
    if isinstance(error, str):
        return "", error[:SHOWN_CHARACTERS]
    if not isinstance(error, dict):
        return "", ""
    code, message = error.get("code"), error.get("message")
    return str(code or ""), str(message or "")[:SHOWN_CHARACTERS]


def _excerpt(data: bytes) -> str:
    text = decode_output(data[: SHOWN_CHARACTERS * 4]).text
    return repr(text[:SHOWN_CHARACTERS])
