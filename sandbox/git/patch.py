"""Patches that `git apply` reads as they are meant."""

from __future__ import annotations

import re
from typing import Final

_HEADER: Final = b"diff --git "
_BLANK_AT_END: Final = re.compile(rb" (?=/|$)")
"""A name that ends in a space: git 2.39 writes it bare and `git apply` then reads another."""


def quote_headers(patch: bytes) -> bytes:
    """Return the patch with names quoted in headers where a bare one is not read back.

    Args:
        patch: of `git diff-tree -p --no-renames` with prefixes `a/` and `b/`. Only headers begin
            with `diff --git `: lines of content have a sign before them, binary ones no spaces.
    """
    if not _BLANK_AT_END.search(patch):
        return patch
    return b"\n".join(_quote(line) for line in patch.split(b"\n"))


def _quote(line: bytes) -> bytes:
    names = line.removeprefix(_HEADER)
    if names == line or names.startswith(b'"'):
        return line
    half = len(names) // 2  # both names are equal but for the prefix: nothing is renamed
    name = names[len(b"a/") : half]
    if names != b"a/" + name + b" b/" + name or not _BLANK_AT_END.search(name):
        return line
    return _HEADER + b'"a/' + name + b'" "b/' + name + b'"'
