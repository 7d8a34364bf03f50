"""Paths that arguments name: one lexical form for the rules, and that same form for the command.

Nothing here looks at a file system. What is judged is what is run: `link/../x` is judged as `x`
and handed to the command as `x`, whatever `link` may be.
"""

from __future__ import annotations

import posixpath

WORKSPACE = "/workspace"
"""Where the workspace is in every container; commands start there."""


def normalise_path(path: str) -> str:
    """Return a path relative to the workspace; outside of it starts with `/` or `../`."""
    absolute = posixpath.normpath(posixpath.join(WORKSPACE, path))
    absolute = "/" + absolute.lstrip("/")
    if absolute == WORKSPACE:
        return "."
    if absolute.startswith(WORKSPACE + "/"):
        return absolute.removeprefix(WORKSPACE + "/")
    return absolute


def argument_of(path: str) -> str:
    """Return the form for an argument vector; it never starts with `-`."""
    normal = normalise_path(path)
    return normal if normal.startswith("/") or normal == "." else f"./{normal}"


def shown_name(path: str) -> str:
    """Return a path for the tool's own words, cut when it is very long."""
    normal = normalise_path(path)
    return normal if len(normal) <= 200 else f"{normal[:100]}…{normal[-99:]}"
