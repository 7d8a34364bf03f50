"""Judges an action before it runs, and the changes that it really made, by the rules of a policy.

Of the rules that match, the most severe wins; `default` answers only where none matches. Several
paths are judged one by one and the most severe answer stands for all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from policies.action import Action
from policies.changes import Changes, show_path
from policies.decision import SEVERITY, Decision, Verdict
from policies.match import match_call, match_change, prepare_rule
from policies.policy import ChangeRule, CommandRule, Policy

MAX_SHOWN_PATHS = 5

Rule: TypeAlias = CommandRule | ChangeRule


def judge_action(policy: Policy, action: Action) -> Decision:
    """Judge a tool call by the policy's tools and command rules, before it runs."""
    judgement = _Judgement(policy.commands)
    rules = [prepare_rule(rule) for rule in policy.commands]
    for path in action.paths or (None,):
        matching = [one.rule for one in rules if match_call(one, tool=action.tool, path=path)]
        judgement.add("" if path is None else _show(path), matching)
    if action.tool in policy.tools:
        return judgement.decide(policy.default_command)
    return Decision(
        verdict=Verdict.DENY,
        rule="tools",
        reasons=(_explain_tools(policy, action.tool),),
        also_matched=judgement.list_matched(),
    )


def judge_changes(policy: Policy, changes: Changes) -> Decision:
    """Judge what an execution did to the files by the policy's change rules."""
    if not changes.items:
        return Decision(verdict=Verdict.ALLOW, rule="default", reasons=("nothing changed",))
    judgement = _Judgement(policy.changes)
    rules = [prepare_rule(rule) for rule in policy.changes]
    for change in changes.items:
        matching = [one.rule for one in rules if match_change(one, change)]
        judgement.add(f"{change.kind.value} {_show(show_path(change.path))}", matching)
    return judgement.decide(policy.default_change)


@dataclass(slots=True)
class _Places:
    """Where a rule matched: the first few in words, the others as a number."""

    shown: list[str] = field(default_factory=list)
    count: int = 0

    def add(self, place: str) -> None:
        self.count += 1
        if place and len(self.shown) < MAX_SHOWN_PATHS:
            self.shown.append(place)

    def tell(self) -> tuple[str, ...]:
        more = self.count - len(self.shown)
        if not self.shown or not more:
            return tuple(self.shown)
        return (*self.shown, f"and {more} more")


class _Judgement:
    """Collects what matched, rule by rule, in the policy's order."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._rules = rules
        self._matched: dict[str, _Places] = {}
        self._unmatched = _Places()

    def add(self, place: str, matching: Iterable[Rule]) -> None:
        """Note which rules match one place; an empty place is the call itself."""
        places = [self._matched.setdefault(rule.id, _Places()) for rule in matching]
        for one in places or [self._unmatched]:
            one.add(place)

    def list_matched(self) -> tuple[str, ...]:
        """Return the ids of the rules that matched anything."""
        return tuple(rule.id for rule in self._rules if rule.id in self._matched)

    def decide(self, default: Verdict) -> Decision:
        """Return the most severe answer; a rule's before the default of the same severity."""
        matched = [rule for rule in self._rules if rule.id in self._matched]
        winner = max(matched, key=lambda rule: SEVERITY[rule.then], default=None)
        beaten = winner is not None and SEVERITY[default] > SEVERITY[winner.then]
        if winner is None or (beaten and self._unmatched.count):
            # what is allowed needs no list of everything
            places = () if default is Verdict.ALLOW else self._unmatched.tell()
            return Decision(
                verdict=default,
                rule="default",
                reasons=("no rule matches", *places),
                also_matched=self.list_matched(),
            )
        because = (winner.because,) if winner.because else ()
        return Decision(
            verdict=winner.then,
            rule=winner.id,
            reasons=(*because, *self._matched[winner.id].tell()),
            also_matched=tuple(one for one in self.list_matched() if one != winner.id),
        )


def _explain_tools(policy: Policy, tool: str) -> str:
    listed = ", ".join(policy.tools) or "none"
    return f"the policy has no tool {tool!r}; it has {listed}"


def _show(path: str) -> str:
    """Return a path with every character visible, so that it cannot pass for something else."""
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in path
    )
