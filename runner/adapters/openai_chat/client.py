"""The HTTP client that the models of one process share."""

from __future__ import annotations

import httpx

MAX_CONNECTIONS = 64
"""Model calls under way at once in this process; more wait."""


def make_client() -> httpx.Client:
    """Return a client to be closed by its owner; it reads no proxy or key from the environment."""
    limits = httpx.Limits(
        max_connections=MAX_CONNECTIONS, max_keepalive_connections=MAX_CONNECTIONS
    )
    return httpx.Client(trust_env=False, limits=limits)
