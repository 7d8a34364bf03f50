"""All tools by name. A new tool is a new file and a line here."""

from __future__ import annotations

from collections.abc import Sequence

from runner.application.tools.edit_file import EDIT_FILE
from runner.application.tools.finish import FINISH
from runner.application.tools.list_files import LIST_FILES
from runner.application.tools.read_file import READ_FILE
from runner.application.tools.run_verify import RUN_VERIFY
from runner.application.tools.search import SEARCH
from runner.application.tools.shell import SHELL
from runner.application.tools.tool import Tool
from runner.application.tools.write_file import WRITE_FILE
from runner.errors import NotFoundError

_ALL: tuple[Tool, ...] = (
    SHELL,
    READ_FILE,
    WRITE_FILE,
    EDIT_FILE,
    LIST_FILES,
    SEARCH,
    RUN_VERIFY,
    FINISH,
)

TOOL_NAMES: tuple[str, ...] = tuple(tool.name for tool in _ALL)
"""Every tool of this release, in the order in which models are told of them."""


def make_tools(names: Sequence[str]) -> dict[str, Tool]:
    """Return the named tools by name, always in the registry's order.

    Raises:
        NotFoundError: a name is no tool of this release.
    """
    for name in names:
        if name not in TOOL_NAMES:
            raise NotFoundError("tool", name)
    return {tool.name: tool for tool in _ALL if tool.name in names}
