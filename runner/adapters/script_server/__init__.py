"""A strict, OpenAI-compatible model server on loopback that plays scripts."""

from runner.adapters.script_server.chat_reply import HttpAnswer, answer_chat
from runner.adapters.script_server.server import ScriptServer

__all__ = ["HttpAnswer", "ScriptServer", "answer_chat"]
