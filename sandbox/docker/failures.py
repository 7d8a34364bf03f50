"""What the Docker SDK and its transport raise, translated into errors of the sandbox package.

The only place that knows foreign exception types. Two errors stay inside this adapter: callers
of `sandbox` see them as the EngineError that they are.

EngineError
├── NotThereError    the object does not exist on the engine
└── ConflictError    the engine is in another state: name taken, not running, removal under way
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import docker.errors
import requests.exceptions
import urllib3.exceptions

from sandbox.errors import (
    DiskFullError,
    EngineError,
    EngineUnavailableError,
    ImageMissingError,
    SandboxError,
    UnsupportedError,
)

Translation = Callable[[Exception, str], SandboxError]
_FOREIGN = (
    docker.errors.DockerException,
    docker.errors.StreamParseError,
    requests.exceptions.RequestException,
    urllib3.exceptions.HTTPError,
    urllib3.exceptions.ProxySchemeUnsupported,  # an AssertionError of theirs
    OSError,
)
_NO_SPACE = "no space left on device"  # strerror(ENOSPC), as the engine passes it on


class NotThereError(EngineError):
    """The engine does not know the object."""


class ConflictError(EngineError):
    """The object's state does not allow the request."""


@contextmanager
def translated(doing: str) -> Iterator[None]:
    """Turn whatever the SDK raises inside into an error of ours.

    Args:
        doing: what was being done, for the message: "create the container".

    Raises:
        SandboxError: see `translate`.
    """
    try:
        yield
    except _FOREIGN as error:
        raise translate(error, doing) from error


def translate(error: Exception, doing: str) -> SandboxError:
    """Return our error for a foreign one; the most specific row of the table wins."""
    row = find_row(type(error))
    if row is None:
        raise TypeError(f"no row for {type(error).__name__}") from error
    return row(error, doing)


def find_row(kind: type[BaseException]) -> Translation | None:
    """Return how errors of a kind are translated, or None for a kind that is not foreign."""
    return next((_TABLE[one] for one in kind.__mro__ if one in _TABLE), None)


def _unavailable(error: Exception, doing: str) -> SandboxError:
    return EngineUnavailableError(
        f"the engine does not answer (to {doing}): {_find_reason(error)}"
    )


def _find_reason(error: BaseException) -> str:
    """Return the system's own words where they are somewhere inside, else the error's."""
    waiting, seen = [error], list[BaseException]()
    while waiting:
        one = waiting.pop()
        if one in seen:
            continue
        seen.append(one)
        if isinstance(one, OSError) and one.errno and one.strerror:
            return one.strerror
        inner = (one.__cause__, one.__context__, getattr(one, "reason", None), *one.args)
        waiting += [part for part in inner if isinstance(part, BaseException)]
    return str(error)


def _refused(error: Exception, doing: str) -> SandboxError:
    return EngineError(f"the engine cannot {doing}: {error}")


def _sdk_failed(error: Exception, doing: str) -> SandboxError:
    # While negotiating the API version the SDK wraps every failure in its base class.
    if isinstance(error.__cause__, (requests.exceptions.RequestException, OSError)):
        return _unavailable(error.__cause__, doing)
    return _refused(error, doing)


def _answered(error: Exception, doing: str) -> SandboxError:
    if not isinstance(error, docker.errors.APIError):
        raise TypeError(f"not an answer: {type(error).__name__}") from error
    text = str(error.explanation or error)
    if _NO_SPACE in text.lower():
        return DiskFullError(f"no room to {doing}: {text}")
    status = error.response.status_code if error.response is not None else 0
    made = _BY_STATUS.get(status, EngineError)
    return made(f"the engine cannot {doing}: {text}")


def _image_missing(error: Exception, _doing: str) -> SandboxError:
    return ImageMissingError(str(getattr(error, "explanation", None) or error))


def _unsupported(error: Exception, doing: str) -> SandboxError:
    return UnsupportedError(f"the engine's API does not fit (to {doing}): {error}")


_BY_STATUS: dict[int, type[EngineError]] = {
    404: NotThereError,  # RFC 9110 §15.5.5
    409: ConflictError,  # RFC 9110 §15.5.10
    503: EngineUnavailableError,  # RFC 9110 §15.6.4
}

_TABLE: dict[type, Translation] = {
    docker.errors.DockerException: _sdk_failed,
    docker.errors.APIError: _answered,
    docker.errors.ImageNotFound: _image_missing,
    docker.errors.InvalidVersion: _unsupported,
    docker.errors.TLSParameterError: _unsupported,
    docker.errors.StreamParseError: _refused,
    requests.exceptions.RequestException: _unavailable,
    urllib3.exceptions.HTTPError: _unavailable,
    urllib3.exceptions.ProxySchemeUnsupported: _refused,
    OSError: _unavailable,
}
