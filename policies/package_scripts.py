"""Tells whether two versions of a package.json run the same things."""

from __future__ import annotations

import json
from typing import Final

from policies.canonical import Json

_RUN: Final = (
    "scripts",
    "bin",
    "gypfile",
    "packageManager",  # corepack fetches and starts it
    "workspaces",
    "husky",
    "gitHooks",
    "simple-git-hooks",
    "pre-commit",
    "pre-push",
    "lint-staged",
    "jest",
    "eslintConfig",
    "babel",
    "prettier",
)
"""Keys whose values npm, yarn, pnpm, hook managers and test runners execute or load."""


def same_package_scripts(before: bytes, after: bytes) -> bool:
    """Tell whether all that a package.json has executed stayed as it was.

    One that cannot be read counts as changed. What its dependencies run is not looked at.
    """
    old, new = _parse(before), _parse(after)
    if old is None or new is None:
        return False
    return all(old.get(key) == new.get(key) for key in _RUN)


def _parse(text: bytes) -> dict[str, Json] | None:
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return parsed if isinstance(parsed, dict) else None
