"""World state: what is new is told once, what changed replaces, what stayed is not said again."""

from datetime import UTC, datetime

from runner.domain.budget import Budget, Usage
from runner.domain.items import FragmentItem, NewItem, WorldStateItem, chain_item
from runner.domain.world_state import (
    Section,
    find_differences,
    make_budget_section,
    percent_left,
)

AT = datetime(2026, 11, 30, tzinfo=UTC)


def section(value: str, text: str = "words") -> Section:
    return Section(name="environment.container", value={"network": value}, text=text)


def stored(items: tuple[NewItem, ...]):
    return [chain_item(item, seq=seq, at=AT, prev="") for seq, item in enumerate(items, start=1)]


def test_a_new_section_is_told_as_a_fragment_and_then_as_its_value() -> None:
    news = find_differences([], [section("none")])

    assert [type(item.payload) for item in news] == [FragmentItem, WorldStateItem]


def test_an_unchanged_section_is_not_told_again() -> None:
    told = stored(find_differences([], [section("none")]))

    assert find_differences(told, [section("none", "other words")]) == ()


def test_a_changed_section_says_that_it_replaces_the_earlier_one() -> None:
    told = stored(find_differences([], [section("none")]))

    fragment = find_differences(told, [section("open")])[0].payload

    assert isinstance(fragment, FragmentItem)
    assert "replaces" in fragment.text


def test_a_stored_value_that_cannot_be_read_counts_as_unknown_and_is_told_again() -> None:
    broken = NewItem(payload=WorldStateItem(section="environment.container", value="{half"))

    assert find_differences(stored((broken,)), [section("none")]) != ()


def test_the_budget_is_told_only_below_a_half_a_quarter_and_a_tenth() -> None:
    budget = Budget(model_calls=100, wall_seconds=0, tokens=0, tool_seconds=0, output_mib=0)

    levels = [make_budget_section(budget, Usage(model_calls=used)) for used in (50, 51, 76, 91)]

    assert [one and one.value for one in levels] == [
        None,
        {"below_percent": 50},
        {"below_percent": 25},
        {"below_percent": 10},
    ]


def test_the_scarcest_limit_decides_what_is_left() -> None:
    budget = Budget(model_calls=100, tokens=1000)

    assert percent_left(budget, Usage(model_calls=10, tokens=900)) == 10
