"""Puts layers together: each may only narrow what the others leave.

Rules are united, numbers take the minimum; hosts, names, tools and mounts the intersection;
network, root filesystem and disk the stricter; the answer without a rule the more severe. A key
that a layer does not write restricts nothing; one that no layer writes stays None.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from policies.decision import SEVERITY, Verdict
from policies.document import (
    ChangePart,
    CommandPart,
    DefaultPart,
    Document,
    EnvironmentPart,
    LimitsPart,
    MountPart,
    NetworkPart,
    SandboxPart,
)
from policies.limits import DiskLimit, NetworkMode, RootFilesystem

T = TypeVar("T")

STRICTEST_FIRST_NETWORK = (NetworkMode.NONE, NetworkMode.ALLOWLIST, NetworkMode.OPEN)
STRICTEST_FIRST_ROOT = (RootFilesystem.READ_ONLY, RootFilesystem.WRITABLE)
STRICTEST_FIRST_DISK = (DiskLimit.HARD, DiskLimit.WATCHED)
STRICTEST_FIRST_VERDICT = tuple(sorted(Verdict, key=lambda verdict: -SEVERITY[verdict]))


def merge_documents(documents: Sequence[Document]) -> Document:
    """Merge layers, outermost first and at least one; the name is the last one's."""
    return Document(
        name=documents[-1].name,
        tools=_intersect(document.tools for document in documents),
        sandbox=_merge_sandboxes(_written(document.sandbox for document in documents)),
        commands=_unite_commands(documents),
        changes=_unite_changes(documents),
        default=_merge_defaults(_written(document.default for document in documents)),
    )


def _merge_sandboxes(parts: Sequence[SandboxPart]) -> SandboxPart:
    return SandboxPart(
        network=_merge_networks(_written(part.network for part in parts)),
        setup_network=_intersect(part.setup_network for part in parts),
        rootfs=_strictest((part.rootfs for part in parts), STRICTEST_FIRST_ROOT),
        mounts=_merge_mounts(_written(part.mounts for part in parts)),
        env=_merge_environments(_written(part.env for part in parts)),
        limits=_merge_limits(_written(part.limits for part in parts)),
        disk=_strictest((part.disk for part in parts), STRICTEST_FIRST_DISK),
    )


def _merge_networks(parts: Sequence[NetworkPart]) -> NetworkPart:
    return NetworkPart(
        mode=_strictest((part.mode for part in parts), STRICTEST_FIRST_NETWORK),
        hosts=_intersect(part.hosts for part in parts),
    )


def _merge_mounts(lists: Sequence[tuple[MountPart, ...]]) -> tuple[MountPart, ...] | None:
    """Keep the mounts that every list has; one that any list has read-only is read-only."""
    if not lists:
        return None
    kept = _intersect(tuple((mount.source, mount.target) for mount in mounts) for mounts in lists)
    read_only = {
        (mount.source, mount.target) for mounts in lists for mount in mounts if mount.mode == "ro"
    }
    return tuple(
        MountPart(
            source=source, target=target, mode="ro" if (source, target) in read_only else "rw"
        )
        for source, target in kept or ()
    )


def _merge_environments(parts: Sequence[EnvironmentPart]) -> EnvironmentPart:
    merged = {
        "pass": _intersect(part.pass_ for part in parts),
        "set": _merge_values(_written(part.set for part in parts)),
    }
    return EnvironmentPart.model_validate(merged)


def _merge_values(mappings: Sequence[Mapping[str, str]]) -> dict[str, str] | None:
    """Keep the names that all have; the outermost layer's value stands."""
    if not mappings:
        return None
    kept = _intersect(tuple(mapping) for mapping in mappings) or ()
    return {name: mappings[0][name] for name in sorted(kept)}


def _merge_limits(parts: Sequence[LimitsPart]) -> LimitsPart:
    numbers = {
        name: min(_written(getattr(part, name) for part in parts), default=None)
        for name in LimitsPart.model_fields
    }
    return LimitsPart.model_validate(numbers)


def _merge_defaults(parts: Sequence[DefaultPart]) -> DefaultPart:
    return DefaultPart(
        commands=_strictest((part.commands for part in parts), STRICTEST_FIRST_VERDICT),
        changes=_strictest((part.changes for part in parts), STRICTEST_FIRST_VERDICT),
    )


def _unite_commands(documents: Iterable[Document]) -> tuple[CommandPart, ...]:
    return _unite(document.commands or () for document in documents)


def _unite_changes(documents: Iterable[Document]) -> tuple[ChangePart, ...]:
    return _unite(document.changes or () for document in documents)


def _unite(lists: Iterable[tuple[T, ...]]) -> tuple[T, ...]:
    united: list[T] = []
    for members in lists:
        united.extend(member for member in members if member not in united)
    return tuple(united)


def _intersect(lists: Iterable[tuple[T, ...] | None]) -> tuple[T, ...] | None:
    """Return what every written list has, in the order of the last; None where none is written."""
    written = _written(lists)
    if not written:
        return None
    last = dict.fromkeys(written[-1])
    return tuple(member for member in last if all(member in members for members in written))


def _strictest(values: Iterable[T | None], strictest_first: Sequence[T]) -> T | None:
    return min(_written(values), key=strictest_first.index, default=None)


def _written(values: Iterable[T | None]) -> list[T]:
    return [value for value in values if value is not None]
