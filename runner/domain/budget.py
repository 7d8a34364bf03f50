"""Budgets: what a run may use, what it has used, and which limit ends it."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from policies import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Limits of one run; 0 = no limit."""

    wall_seconds: int = 1800
    """Counts only while the run is running."""
    model_calls: int = 60
    tokens: int = 400_000
    cost_micro_usd: int = 0
    tool_seconds: int = 900
    output_mib: int = 64

    def to_json(self) -> Json:
        """Return the form that is stored and shown."""
        return {one.name: getattr(self, one.name) for one in fields(self)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What a run has used so far."""

    wall_milliseconds: int = 0
    model_calls: int = 0
    tokens: int = 0
    cost_micro_usd: int = 0
    tool_milliseconds: int = 0
    output_bytes: int = 0

    def to_json(self) -> Json:
        """Return the form that is stored and shown."""
        return {one.name: getattr(self, one.name) for one in fields(self)}

    def plus(self, **more: int) -> Usage:
        """Return the usage with more added; names as the fields."""
        return replace(self, **{name: getattr(self, name) + more[name] for name in more})


@dataclass(frozen=True, slots=True)
class LimitHit:
    """A limit that was reached."""

    limit: str
    """Name of the budget's field."""
    allowed: int
    used: int


def find_limit(budget: Budget, usage: Usage) -> LimitHit | None:
    """Return the first limit that leaves nothing for another step, or None."""
    pairs = (
        ("wall_seconds", budget.wall_seconds, usage.wall_milliseconds // 1000),
        ("model_calls", budget.model_calls, usage.model_calls),
        ("tokens", budget.tokens, usage.tokens),
        ("cost_micro_usd", budget.cost_micro_usd, usage.cost_micro_usd),
        ("tool_seconds", budget.tool_seconds, usage.tool_milliseconds // 1000),
        ("output_mib", budget.output_mib, usage.output_bytes // (1024 * 1024)),
    )
    for limit, allowed, used in pairs:
        if allowed and used >= allowed:
            return LimitHit(limit, allowed, used)
    return None
