"""One layer of a policy: a file's document, and where each of its fields stands."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import ValidationError

from policies.document import Document
from policies.errors import PolicyFileError
from policies.problem import describe_error, locate_error
from policies.refused import check_refused
from policies.yaml_tree import FieldPath, YamlTree, parse_yaml, show_field


@dataclass(frozen=True, slots=True)
class Layer:
    """A policy file that was read."""

    tree: YamlTree
    document: Document

    def make_error(self, path: FieldPath, problem: str) -> PolicyFileError:
        """Return the error that names this file and a field's line."""
        return PolicyFileError(self.tree.file, self.line_of(path), show_field(path), problem)

    def line_of(self, path: FieldPath) -> int:
        """Return the line of a field, or of the nearest field around it."""
        return self.tree.line_of(path)


def parse_layer(text: str, *, file: str) -> Layer:
    """Parse the text of a policy file.

    Raises:
        PolicyRefusedError: it uses a feature that is not enforced yet.
        PolicyFileError: it is not a policy file; the first problem by line is named.
    """
    return make_layer(parse_yaml(text, file=file))


def make_layer(tree: YamlTree) -> Layer:
    """Make a layer of plain values.

    Raises:
        PolicyRefusedError: it uses a feature that is not enforced yet.
        PolicyFileError: it is not a policy file; the first problem by line is named.
    """
    check_refused(tree)
    try:
        return Layer(tree, Document.model_validate(tree.value))
    except ValidationError as error:
        first = min(error.errors(), key=lambda one: tree.line_of(locate_error(one)))
        path = locate_error(first)
        problem = describe_error(first, model=Document)
        raise PolicyFileError(tree.file, tree.line_of(path), show_field(path), problem) from error
