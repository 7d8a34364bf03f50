"""Errors of the policies package.

PolicyError
├── PolicyFileError          a file that cannot be used: names file, line, field and the way out
│   ├── PolicyExampleError   an example of a rule does not match as it claims
│   └── PolicyRefusedError   a feature that is known but not enforced by this release or engine
├── RuleError                a rule that did not come from a policy file has no meaning
├── GlobError                a path pattern that cannot mean what it seems to say
└── CanonicalFormError       a value that has no canonical form
"""

from __future__ import annotations


class PolicyError(Exception):
    """Anything that stops a policy from being loaded or applied."""


class PolicyFileError(PolicyError):
    """A policy file is missing, unreadable or says something that has no meaning."""

    def __init__(self, file: str, line: int, field: str, problem: str) -> None:
        self.file = file
        self.line = line
        self.field = field
        self.problem = problem
        super().__init__(f"{file}:{line}: {field or 'file'}: {problem}")


class PolicyExampleError(PolicyFileError):
    """An example of a rule behaves otherwise than the rule's author claims."""


class PolicyRefusedError(PolicyFileError):
    """A feature that this release or this engine cannot enforce, refused by name."""


class RuleError(PolicyError):
    """A rule that is added to a loaded policy has no meaning, or its id is taken."""

    def __init__(self, rule: str, problem: str) -> None:
        self.rule = rule
        self.problem = problem
        super().__init__(f"rule {rule!r}: {problem}")


class GlobError(PolicyError):
    """A path pattern is malformed, or could never match what it seems to name."""

    def __init__(self, pattern: str, problem: str) -> None:
        self.pattern = pattern
        self.problem = problem
        super().__init__(f"the pattern {pattern[:80]!r} {problem}")


class CanonicalFormError(PolicyError):
    """A value holds something that canonical JSON does not carry."""

    def __init__(self, where: str, problem: str) -> None:
        self.where = where
        self.problem = problem
        super().__init__(f"{where or 'value'}: {problem}")
