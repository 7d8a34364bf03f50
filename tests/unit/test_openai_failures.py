import inspect
from datetime import UTC, datetime, timedelta

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.adapters.openai_chat import RetryPolicy
from runner.adapters.openai_chat.failures import (
    NO_ANSWER,
    NOT_SENT,
    Failure,
    status_failure,
    translate,
    without_key,
)
from runner.adapters.openai_chat.retry import parse_retry_after
from runner.errors import ModelRefusedError, ModelRequestError, ModelUnavailableError

NOW = datetime(2026, 11, 30, 12, 0, 0, tzinfo=UTC)

OUR_BUGS = (httpx.StreamError, httpx.CookieConflict)
"""For a stream that is read twice or unread, and for cookies, which we have none of."""


def foreign_errors() -> list[type[Exception]]:
    classes = [one for _, one in inspect.getmembers(httpx, inspect.isclass)]
    return [one for one in classes if issubclass(one, Exception) and one not in ABSTRACT]


ABSTRACT = (httpx.HTTPError, httpx.RequestError, httpx.TransportError, httpx.ProtocolError)


@pytest.mark.parametrize("kind", foreign_errors())
def test_every_error_of_httpx_is_translated_or_a_bug_of_ours(kind):
    tables = [issubclass(kind, table) for table in (NO_ANSWER, NOT_SENT, OUR_BUGS)]

    assert tables.count(True) == 1


def test_the_text_of_a_foreign_error_is_not_repeated():
    secret = "Bearer sk-very-secret"  # a header that a message may quote

    errors = [
        translate(httpx.LocalProtocolError(secret)),
        translate(httpx.ReadTimeout(secret)),
    ]

    assert [type(one) for one in errors] == [ModelRequestError, ModelUnavailableError]
    assert not any("secret" in str(one) for one in errors)


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 504, 529])
def test_a_status_that_passes_may_be_tried_again(status):
    failure = status_failure(status, b"<html>busy</html>", retry_after="7")

    assert isinstance(failure.error, ModelUnavailableError)
    assert failure.retry_after == "7"
    assert "<html>busy</html>" in str(failure.error)


@pytest.mark.parametrize("status", [301, 400, 401, 403, 404, 413, 422])
def test_a_status_about_the_request_is_final(status):
    body = b'{"error": {"message": "bad roles", "code": null}}'

    failure = status_failure(status, body, retry_after="")

    assert isinstance(failure.error, ModelRequestError)
    assert str(failure.error) == f"the provider answered {status}: bad roles"


def test_a_used_up_quota_is_final_and_a_content_filter_is_a_refusal():
    quota = b'{"error": {"message": "pay", "code": "insufficient_quota"}}'
    refused = b'{"error": {"message": "no", "code": "content_policy_violation"}}'

    assert isinstance(status_failure(429, quota, retry_after="").error, ModelRequestError)
    assert isinstance(status_failure(400, refused, retry_after="").error, ModelRefusedError)


def test_a_key_that_a_provider_repeats_is_cut_out():
    failure = Failure(ModelRequestError("the key sk-1 is unknown"), "3")

    assert str(without_key(failure, "sk-1").error) == "the key [key] is unknown"
    assert without_key(failure, "sk-1").retry_after == "3"
    assert without_key(failure, "") is failure


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("2", 2.0),
        (" 0.5 ", 0.5),
        ("Mon, 30 Nov 2026 12:00:30 GMT", 30.0),
        ("Mon, 30 Nov 2026 11:00:00 GMT", 0.0),
        ("", None),
        ("soon", None),
        ("-1", None),
        ("Mon, 30 Nov 2026 12:00:30", None),
    ],
)
def test_retry_after_is_read_in_both_forms(header, seconds):
    assert parse_retry_after(header, now=NOW) == seconds


@given(st.text(max_size=40))
def test_no_retry_after_header_raises(header):
    seconds = parse_retry_after(header, now=NOW)

    assert seconds is None or seconds >= 0


def test_a_date_of_the_far_future_is_capped():
    far = (NOW + timedelta(days=9000)).strftime("%a, %d %b %Y %H:%M:%S GMT")
    asked = parse_retry_after(far, now=NOW)

    assert RetryPolicy().delay_seconds(1, asked=asked, chance=0.0) == 120


@given(st.integers(1, 50), st.floats(0, 1), st.none() | st.floats(0, 1e9))
def test_delays_stay_within_their_caps_and_obey_what_is_asked(attempt, chance, asked):
    policy = RetryPolicy()

    seconds = policy.delay_seconds(attempt, asked=asked, chance=chance)

    assert 0 < seconds <= 150 or asked == 0
    assert seconds >= min(asked or 0, policy.longest_asked_seconds)
