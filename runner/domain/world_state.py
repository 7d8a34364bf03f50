"""World state: named sections of what the model has been told, sent as differences.

A section's value holds no clock, elapsed time, host name or attempt number, so that nothing is
said again when nothing changed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from policies import Json, canonical_json
from runner.domain.budget import Budget, Usage
from runner.domain.fragment import Fragment
from runner.domain.items import NewItem, RolloutItem, WorldStateItem

BUDGET_LEVELS = (10, 25, 50)
"""Percent left at which the model is told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """One part of the surroundings."""

    name: str
    value: Json
    text: str
    """What the model is told when the value is new to it."""


def make_budget_section(budget: Budget, usage: Usage) -> Section | None:
    """Return what to say of the budget, or None while more than half of it is left."""
    left = percent_left(budget, usage)
    level = next((one for one in BUDGET_LEVELS if left < one), None)
    if level is None:
        return None
    return Section(
        name="budget.left",
        value={"below_percent": level},
        text=f"Less than {level} % of this run's budget is left. Finish what matters most.",
    )


def percent_left(budget: Budget, usage: Usage) -> int:
    """Return how much is left of the scarcest limit, 0 to 100."""
    pairs = (
        (budget.wall_seconds * 1000, usage.wall_milliseconds),
        (budget.model_calls, usage.model_calls),
        (budget.tokens, usage.tokens),
        (budget.cost_micro_usd, usage.cost_micro_usd),
        (budget.tool_seconds * 1000, usage.tool_milliseconds),
        (budget.output_mib * 1024 * 1024, usage.output_bytes),
    )
    shares = [100 * max(allowed - used, 0) // allowed for allowed, used in pairs if allowed]
    return min(shares, default=100)


def find_differences(
    items: Iterable[RolloutItem], sections: Sequence[Section]
) -> tuple[NewItem, ...]:
    """Return the items that tell the model what is new: fragment first, then the value."""
    told = _told_values(items)
    news: list[NewItem] = []
    for section in sections:
        value = canonical_json(section.value).decode()
        before = told.get(section.name)
        if before == value:
            continue
        text = section.text
        if before is not None:
            text = f"This replaces what was said before under {section.name}.\n{text}"
        news.append(NewItem(payload=Fragment(kind=section.name, text=text).to_item()))
        news.append(NewItem(payload=WorldStateItem(section=section.name, value=value)))
    return tuple(news)


def _told_values(items: Iterable[RolloutItem]) -> dict[str, str]:
    told: dict[str, str] = {}
    for item in items:
        if isinstance(item.payload, WorldStateItem):
            told[item.payload.section] = _normal(item.payload.value)
    return told


def _normal(value: str) -> str:
    try:
        return canonical_json(json.loads(value)).decode()
    except ValueError:
        return ""  # a value of a format that we cannot read counts as unknown: told again
