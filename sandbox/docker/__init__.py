"""Sandboxes on a local Docker engine, hardened, limited and proved clean after each command."""
