"""Values and rules of the service; no I/O."""
