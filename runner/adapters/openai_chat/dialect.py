"""How bodies of one provider of the Chat Completions format differ from another's.

A dialect is part of the adapter's name, and so of every turn_context: a past body can be rendered
again without knowing where it was sent.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from itertools import product

FORMAT = "openai_chat"


class DeveloperRole(StrEnum):
    """As what our own words in the middle of a conversation are sent."""

    #: every server takes it
    USER = "user"
    #: only where a system message may stand anywhere
    SYSTEM = "system"
    #: OpenAI's newer models
    DEVELOPER = "developer"


class LimitField(StrEnum):
    """What the limit on an answer's tokens is called."""

    #: most servers
    MAX_TOKENS = "max_tokens"
    #: OpenAI's newer models
    MAX_COMPLETION_TOKENS = "max_completion_tokens"


@dataclass(frozen=True, slots=True)
class ChatDialect:
    """What rendering depends on beside the request; defaults suit the strictest server."""

    developer_role: DeveloperRole = DeveloperRole.USER
    limit_field: LimitField = LimitField.MAX_TOKENS

    @property
    def adapter(self) -> str:
        """`openai_chat`, then `:` and what differs from the default."""
        parts = [FORMAT]
        if self.developer_role is not DeveloperRole.USER:
            parts.append(f"developer={self.developer_role.value}")
        if self.limit_field is not LimitField.MAX_TOKENS:
            parts.append(f"limit={self.limit_field.value}")
        return ":".join(parts)


def find_dialect(adapter: str) -> ChatDialect | None:
    """Return the dialect that an adapter's name stands for, or None for another's name."""
    every = (ChatDialect(role, limit) for role, limit in product(DeveloperRole, LimitField))
    return next((one for one in every if one.adapter == adapter), None)
