"""What README.md says of the scripted agent and of outcomes is what the program does."""

from __future__ import annotations

import re
from pathlib import Path

from runner.application.tools.registry import TOOL_NAMES, make_tools
from runner.domain.outcome import Outcome
from runner.domain.script import parse_script

TOOLS = make_tools(TOOL_NAMES)

README = (Path(__file__).parents[2] / "README.md").read_text()


def read_rows(head: str) -> dict[str, str]:
    """Return the rows of the table with this head: first cell to second."""
    _, _, rest = README.partition(f"| {head} |")
    rows = rest.partition("\n\n")[0].splitlines()[2:]
    return {cells[1].strip(): cells[2] for row in rows if (cells := row.split("|"))}


def test_the_example_of_a_script_can_be_played() -> None:
    (example,) = re.findall(r"```yaml\n(replies:.*?)```", README, re.DOTALL)

    script = parse_script(example)

    calls = [call for reply in script.replies for call in reply.calls]
    assert [call.tool for call in calls] == ["search", "edit_file", "shell", "finish"]
    for call in calls:
        TOOLS[call.tool].parse(call.text)


def test_every_tool_is_listed_with_its_arguments() -> None:
    rows = read_rows("tool | arguments (with `=` those that may be left out)")

    assert {name.strip("`") for name in rows} == set(TOOLS)
    for name, words in rows.items():
        schema = TOOLS[name.strip("`")].schema.parameters
        told = set(re.findall(r"`([a-z_]+)(?:=[^`]*)?`", words))
        assert isinstance(schema, dict)
        properties = schema["properties"]
        assert isinstance(properties, dict)
        assert set(properties) <= told, name


def test_every_outcome_is_listed() -> None:
    told = {name for cell in read_rows("outcome | when") for name in re.findall(r"`(\w+)`", cell)}
    later = {"context_exhausted", "out_of_memory", "killed", "resource_limit"}

    assert told | later == {one.value for one in Outcome}
    assert all(f"`{name}`" in README for name in later)
