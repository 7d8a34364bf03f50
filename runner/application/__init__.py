"""Use cases of the service, written against ports."""
