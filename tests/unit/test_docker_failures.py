import inspect

import docker.errors
import pytest
import requests
import urllib3.exceptions

from sandbox import (
    DiskFullError,
    EngineError,
    EngineUnavailableError,
    ImageMissingError,
    SandboxError,
    UnsupportedError,
)
from sandbox.docker.failures import (
    ConflictError,
    NotThereError,
    find_row,
    translate,
    translated,
)


def answer(status, text="no"):
    response = requests.Response()
    response.status_code = status
    return docker.errors.APIError("failed", response=response, explanation=text)


def all_foreign_types():
    modules = (docker.errors, requests.exceptions, urllib3.exceptions)
    kinds = {
        kind
        for module in modules
        for _name, kind in inspect.getmembers(module, inspect.isclass)
        if issubclass(kind, Exception) and not issubclass(kind, Warning)
    }
    own = [kind for kind in kinds if kind.__module__.split(".")[0] in _PACKAGES]
    return sorted(own, key=lambda kind: f"{kind.__module__}.{kind.__name__}")


_PACKAGES = ("docker", "requests", "urllib3")


@pytest.mark.parametrize("kind", all_foreign_types(), ids=lambda kind: kind.__qualname__)
def test_every_error_of_the_sdk_and_its_transport_has_a_row(kind):
    assert find_row(kind) is not None


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (answer(404), NotThereError),
        (answer(409), ConflictError),
        (answer(500), EngineError),
        (answer(500, "write /var/x: No space left on device"), DiskFullError),
        (answer(503), EngineUnavailableError),
        (docker.errors.ImageNotFound("x:1"), ImageMissingError),
        (docker.errors.InvalidVersion("1.99"), UnsupportedError),
        (requests.exceptions.ConnectionError("refused"), EngineUnavailableError),
        (requests.exceptions.ReadTimeout("late"), EngineUnavailableError),
        (ConnectionResetError(104, "reset"), EngineUnavailableError),
        (docker.errors.NullResource("empty"), EngineError),
    ],
)
def test_a_foreign_error_becomes_the_decision_that_a_caller_makes(error, expected):
    with pytest.raises(SandboxError) as caught, translated("look"):
        raise error

    assert type(caught.value) is expected
    assert caught.value.__cause__ is error


def test_a_dead_engine_found_while_negotiating_is_unavailable():
    error = docker.errors.DockerException("while fetching server API version")
    error.__cause__ = requests.exceptions.ConnectionError("refused")

    assert isinstance(translate(error, "connect"), EngineUnavailableError)


def test_an_engine_that_is_away_is_told_in_the_words_of_the_system():
    refused = ConnectionRefusedError(111, "Connection refused")
    wrapped = urllib3.exceptions.NewConnectionError(None, "failed to establish")
    wrapped.__cause__ = refused
    retried = urllib3.exceptions.MaxRetryError(None, "/version", wrapped)
    inside = urllib3.exceptions.ProtocolError("Connection aborted.", refused)

    for error in (refused, requests.ConnectionError(retried), requests.ConnectionError(inside)):
        assert str(translate(error, "connect to x")) == (
            "the engine does not answer (to connect to x): Connection refused"
        )


def test_our_own_errors_pass_untouched():
    with pytest.raises(ZeroDivisionError), translated("count"):
        raise ZeroDivisionError
