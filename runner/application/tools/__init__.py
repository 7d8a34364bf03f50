"""The tools that a model may call; each runs inside the sandbox, never on a host path."""

from runner.application.tools.registry import TOOL_NAMES, make_tools
from runner.application.tools.tool import Tool, ToolContext, ToolOutput
from runner.errors import BadArgumentsError

__all__ = ["TOOL_NAMES", "BadArgumentsError", "Tool", "ToolContext", "ToolOutput", "make_tools"]
