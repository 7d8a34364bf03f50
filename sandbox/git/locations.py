"""Checks what the user named as a source, and derives its canonical name."""

from __future__ import annotations

import hashlib
import re
from typing import Final
from urllib.parse import SplitResult, urlsplit

from sandbox.errors import SourceError
from sandbox.git.environment import ALLOWED_SCHEMES
from sandbox.snapshot import RepositoryId

COMMIT_ID: Final = re.compile(r"[0-9a-f]{40}")

_SCP_LIKE: Final = re.compile(r"^[\w.-]+@[\w.-]+:[^:]")
_BAD_IN_REF: Final = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|/\.|\.lock(?:/|$)")


def check_ref(source: str, ref: str) -> None:
    """Accept the name of a branch, tag or commit.

    Raises:
        SourceError: it could be taken for an option, a range or an expression.
    """
    refused = (
        not ref
        or ref == "@"
        or ref[0] in "-/."
        or ref[-1] in "/."
        or _BAD_IN_REF.search(ref) is not None
    )
    if refused:
        raise SourceError(source, f"{ref!r} is no name of a branch, tag or commit; give one")


def check_url(url: str) -> str:
    """Return a URL in its canonical form.

    Raises:
        SourceError: the scheme is not allowed, or the URL carries credentials.
    """
    if _SCP_LIKE.match(url):
        raise SourceError(url, "write it as a URL: ssh://USER@HOST/PATH")
    parts = _split(url)
    if parts.scheme not in ALLOWED_SCHEMES:
        allowed = ", ".join(ALLOWED_SCHEMES)
        raise SourceError(_without_secrets(parts), f"only these schemes are allowed: {allowed}")
    if _has_control_characters(url) or (parts.hostname or "").startswith("-"):
        raise SourceError(_without_secrets(parts), "it holds characters that no URL has")
    if _carries_secret(parts):
        raise SourceError(
            _without_secrets(parts),
            "it carries credentials, which would be stored; remove them and let git's own"
            " means reach it (an ssh key, or a local clone as `path`)",
        )
    if parts.scheme == "file" and not parts.path.startswith("/"):
        raise SourceError(url, "a file URL needs an absolute path: file:///PATH")
    netloc = parts.netloc.lower() if "@" not in parts.netloc else parts.netloc
    return parts._replace(netloc=netloc, path=parts.path.rstrip("/")).geturl()


def repository_id(kind: str, canonical: str) -> RepositoryId:
    """Return the folder name of a source."""
    return RepositoryId(hashlib.sha256(f"{kind}\0{canonical}".encode()).hexdigest())


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 - parsing it is the check
    except ValueError as error:
        shown = url.rpartition("@")[2]
        raise SourceError(shown, "it is not a URL that can be read") from error
    return parts


def _carries_secret(parts: SplitResult) -> bool:
    if parts.query or parts.fragment or parts.password is not None:
        return True
    return parts.username is not None and parts.scheme != "ssh"


def _without_secrets(parts: SplitResult) -> str:
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()


def _has_control_characters(url: str) -> bool:
    return any(not character.isprintable() or character.isspace() for character in url)
