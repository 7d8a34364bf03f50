"""Features of the policy file that this release does not enforce: refused by name, never ignored.

A feature leaves this module in the change that enforces it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from policies.errors import PolicyRefusedError
from policies.yaml_tree import FieldPath, Plain, YamlTree, show_field

_NOT_YET = "is not enforced by this release"
_ANSWERS = {
    "review": f"review {_NOT_YET}, there is no reviewer yet; write deny or allow",
    "ask": f"ask {_NOT_YET}, there are no approvals yet; write deny or allow",
}
_NETWORKS = {"allowlist": f"allowlist {_NOT_YET}; write none or open"}
_ROOTS = {"writable": f"writable {_NOT_YET}; write read-only and install below HOME"}
_KEYS: dict[FieldPath, str] = {
    ("reviewer",): f"reviewer {_NOT_YET}; remove it",
    ("approvals",): f"approvals {_NOT_YET}; remove it",
    ("sandbox", "network", "hosts"): f"hosts of an allowlist {_NOT_YET}; remove it",
}
_ARGV = f"argv {_NOT_YET}; match tool and paths, or write a rule under changes"
_COMMAND_LINE = f"a command line as an example {_NOT_YET}; write {{tool: …, path: …}}"


def check_refused(tree: YamlTree) -> None:
    """Check that a file uses only what this release enforces.

    Raises:
        PolicyRefusedError: it uses something else; the first such field in the file.
    """
    found = sorted(_find_refused(tree.value), key=lambda item: tree.line_of(item[0]))
    for path, problem in found:
        raise PolicyRefusedError(tree.file, tree.line_of(path), show_field(path), problem)


def _find_refused(value: Plain) -> Iterator[tuple[FieldPath, str]]:
    for path, problem in _KEYS.items():
        if _find(value, path) is not None:
            yield path, problem
    for path, refused in _list_choices(value):
        chosen = _find(value, path)
        if isinstance(chosen, str) and chosen in refused:
            yield path, refused[chosen]
    for index in range(_count(value, ("commands",))):
        yield from _find_refused_matching(value, ("commands", index))


def _find_refused_matching(value: Plain, rule: FieldPath) -> Iterator[tuple[FieldPath, str]]:
    argv = (*rule, "match", "argv")
    if _find(value, argv) is not None:
        yield argv, _ARGV
    for claim in ("match", "no_match"):
        examples = (*rule, "examples", claim)
        for index in range(_count(value, examples)):
            if isinstance(_find(value, (*examples, index)), str):
                yield (*examples, index), _COMMAND_LINE


def _list_choices(value: Plain) -> Iterator[tuple[FieldPath, Mapping[str, str]]]:
    for part in ("commands", "changes"):
        yield ("default", part), _ANSWERS
        for index in range(_count(value, (part,))):
            yield (part, index, "then"), _ANSWERS
    setup = ("sandbox", "setup_network")
    for index in range(_count(value, setup)):
        yield (*setup, index), _NETWORKS
    yield ("sandbox", "network", "mode"), _NETWORKS
    yield ("sandbox", "rootfs"), _ROOTS


def _count(value: Plain, path: FieldPath) -> int:
    found = _find(value, path)
    return len(found) if isinstance(found, tuple) else 0


def _find(value: Plain, path: FieldPath) -> Plain | None:
    """Return the value of a field, or None where the file has no such field."""
    found: Plain | None = value
    for step in path:
        if isinstance(found, Mapping) and isinstance(step, str):
            found = found.get(step)
        elif isinstance(found, tuple) and isinstance(step, int) and step < len(found):
            found = found[step]
        else:
            return None
    return found
