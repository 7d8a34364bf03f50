"""Models behind the OpenAI-compatible Chat Completions format."""

from runner.adapters.openai_chat.client import make_client
from runner.adapters.openai_chat.dialect import ChatDialect, DeveloperRole, LimitField
from runner.adapters.openai_chat.model import ChatProvider, OpenAiChatModel, Surroundings
from runner.adapters.openai_chat.render import RENDERER, find_chat_renderer, render_chat
from runner.adapters.openai_chat.reply import read_reply
from runner.adapters.openai_chat.retry import RetryPolicy

__all__ = [
    "RENDERER",
    "ChatDialect",
    "ChatProvider",
    "DeveloperRole",
    "LimitField",
    "OpenAiChatModel",
    "RetryPolicy",
    "Surroundings",
    "find_chat_renderer",
    "make_client",
    "read_reply",
    "render_chat",
]
