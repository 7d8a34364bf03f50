"""Tell whether a Docker engine answers: exit code 0, or 1 with the reason as one word."""

from __future__ import annotations

import os
import sys

import docker
import docker.errors
import requests

_ANSWER_SECONDS = 10


def main() -> int:
    """Ask the engine; print `denied`, `remote` or `silent` where it does not answer."""
    try:
        docker.from_env(timeout=_ANSWER_SECONDS).ping()
    except (docker.errors.DockerException, requests.exceptions.RequestException) as error:
        print(_reason(error))
        return 1
    return 0


def _reason(error: Exception) -> str:
    if "PermissionError" in repr(error) or "Permission denied" in str(error):
        return "denied"
    return "remote" if os.environ.get("DOCKER_HOST") else "silent"


if __name__ == "__main__":
    sys.exit(main())
