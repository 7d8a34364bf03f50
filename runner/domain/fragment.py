"""Fragments: typed, marked, size-capped pieces of context that we add to a conversation."""

from __future__ import annotations

from dataclasses import dataclass

from runner.domain.calls import Role
from runner.domain.items import FragmentItem

CAP_BYTES = 30_000
"""Hard cap of one fragment: 10,000 tokens at 3 bytes each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fragment:
    """One piece of injected context before it is stored."""

    kind: str
    """Stable kind `<feature>.<name>`."""
    text: str
    role: Role = Role.DEVELOPER

    def to_item(self) -> FragmentItem:
        """Return the item; text over the cap is cut with a visible mark."""
        marked = f"<{self.kind}>\n{_cut(self.text)}\n</{self.kind}>"
        return FragmentItem(fragment=self.kind, role=self.role.value, text=marked)


def _cut(text: str) -> str:
    data = text.encode()
    if len(data) <= CAP_BYTES:
        return text
    kept = data[:CAP_BYTES].decode("utf-8", "ignore")
    return f"{kept}\n[cut: {len(data) - CAP_BYTES} of {len(data)} bytes are not shown]"
