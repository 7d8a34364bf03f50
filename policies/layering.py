"""Makes a policy of its layers, whose texts were read before."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from policies.document import ChangePart, CommandPart, SandboxPart
from policies.examples import check_examples
from policies.layer import Layer
from policies.merge import merge_documents
from policies.policy import Policy
from policies.source import make_policy
from policies.yaml_tree import FieldPath


def merge_layers(layers: Sequence[Layer], *, mount_roots: Sequence[str], name: str) -> Policy:
    """Merge layers, outermost first; the first is the ceiling and knows every tool.

    Args:
        layers: at least the ceiling.
        mount_roots: host folders that the operator lets policies mount.
        name: the policy's name where the last layer gives none.

    Raises:
        PolicyFileError: a tool is unknown, a mount lies elsewhere, or two rules share an id.
        PolicyExampleError: an example does not hold in the merged policy.
    """
    for layer in layers:
        _check_tools(layer, known=layers[0].document.tools or ())
        _check_mounts(layer, mount_roots)
    _check_rule_ids(layers)
    policy = make_policy(merge_documents([layer.document for layer in layers]), name=name)
    for layer in layers:
        check_examples(layer, policy)
    return policy


def _check_tools(layer: Layer, *, known: Sequence[str]) -> None:
    for path, tool in _list_tools(layer):
        if tool not in known:
            raise layer.make_error(path, f"no tool {tool!r}; there are {', '.join(known)}")


def _list_tools(layer: Layer) -> Iterator[tuple[FieldPath, str]]:
    document = layer.document
    for index, tool in enumerate(document.tools or ()):
        yield ("tools", index), tool
    for index, rule in enumerate(document.commands or ()):
        for place, tool in enumerate(rule.match.tool):
            yield ("commands", index, "match", "tool", place), tool


def _check_mounts(layer: Layer, mount_roots: Sequence[str]) -> None:
    sandbox = layer.document.sandbox or SandboxPart()
    for index, mount in enumerate(sandbox.mounts or ()):
        source = PurePosixPath(mount.source)
        if not any(source.is_relative_to(root) for root in mount_roots):
            released = ", ".join(mount_roots) or "none"
            raise layer.make_error(
                ("sandbox", "mounts", index, "source"),
                f"{mount.source!r} is below no folder that the operator released: {released}",
            )


def _check_rule_ids(layers: Sequence[Layer]) -> None:
    """Check that no id stands for two rules of one kind: a decision names its rule by id."""
    seen: dict[tuple[str, str], tuple[Layer, FieldPath, CommandPart | ChangePart]] = {}
    for layer in layers:
        for kind, field, rule in _list_rules(layer):
            first_layer, first_field, first = seen.setdefault(
                (kind, rule.id), (layer, field, rule)
            )
            if first is not rule and (first_layer is layer or first != rule):
                where = f"{first_layer.tree.file}:{first_layer.line_of(first_field)}"
                raise layer.make_error(field, f"{rule.id!r} is a rule's id in {where} already")


def _list_rules(layer: Layer) -> Iterator[tuple[str, FieldPath, CommandPart | ChangePart]]:
    for index, command in enumerate(layer.document.commands or ()):
        yield "commands", ("commands", index, "id"), command
    for index, change in enumerate(layer.document.changes or ()):
        yield "changes", ("changes", index, "id"), change
