"""Where the policy of one repository stands in the policies' folder."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from policies.errors import PolicyFileError

_URL = re.compile(
    r"[A-Za-z][A-Za-z0-9+.-]*://(?:[^/@]*@)?(?P<host>[^/:]*)(?::[0-9]*)?(?P<path>/.*)?"
)
# what git takes for ssh: [user@]host:path, and no / before the colon
_SHELL_ADDRESS = re.compile(r"(?:[^/@:]+@)?(?P<host>[^/:]+):(?P<path>.*)")


def repository_file(repository: str) -> PurePosixPath:
    """Return where a repository's policy stands below `repos/`.

    Scheme, user, port and a `.git` at the end do not count: `git@host:a/b.git` and
    `https://host/a/b` both stand in `host/a/b.yaml`, and `/srv/code/b` in `srv/code/b.yaml`.

    Raises:
        PolicyFileError: there is no such place: the source is empty or holds `..`.
    """
    address = _URL.fullmatch(repository) or _SHELL_ADDRESS.fullmatch(repository)
    place = f"{address['host'].lower()}/{address['path'] or ''}" if address else repository
    parts = [part for part in place.split("/") if part not in {"", "."}]
    if not parts or ".." in parts or "\0" in place:
        raise PolicyFileError(repository, 1, "repository", "is no URL and no absolute path")
    name = parts[-1].removesuffix(".git") or parts[-1]
    return PurePosixPath(*parts[:-1], f"{name}.yaml")
