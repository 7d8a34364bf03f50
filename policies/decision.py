"""What the rules answer."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """An answer, least severe first."""

    ALLOW = "allow"
    #: the LLM reviewer looks at it
    REVIEW = "review"
    #: a person answers
    ASK = "ask"
    DENY = "deny"


SEVERITY: dict[Verdict, int] = {verdict: rank for rank, verdict in enumerate(Verdict)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """A verdict, the rule that gave it, and why."""

    verdict: Verdict
    rule: str
    """Id of the rule; `default` where none matched; `tools` where the tool is not listed."""
    reasons: tuple[str, ...] = ()
    also_matched: tuple[str, ...] = ()
    """Ids of the less severe rules that matched too."""
