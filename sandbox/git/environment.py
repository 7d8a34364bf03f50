"""The environment of every git process: ours alone, nothing inherited.

Inherited `GIT_*` variables would point our commands at somebody else's repository, the user's
configuration would run the user's hooks, filters and signing. So nothing is passed on but `PATH`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

DEFAULT_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

ALLOWED_SCHEMES: Final = ("https", "http", "ssh", "git", "file")

# a connection that went dead ends within a minute
_SSH: Final = (
    "ssh -oBatchMode=yes -oConnectTimeout=30 -oServerAliveInterval=15 -oServerAliveCountMax=4"
)
_CONFIGURATION: Final = (
    ("core.hooksPath", "/dev/null"),
    ("core.fsmonitor", "false"),
    ("core.attributesFile", "/dev/null"),
    ("core.excludesFile", "/dev/null"),
    ("core.ignoreCase", "false"),
    ("core.autocrlf", "false"),
    ("core.logAllRefUpdates", "false"),
    ("core.bigFileThreshold", "16m"),  # larger blobs are streamed, never held whole
    ("core.fsync", "all"),
    ("core.pager", "cat"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    ("commit.gpgSign", "false"),
    ("protocol.version", "2"),
    ("protocol.ext.allow", "never"),
    ("http.lowSpeedLimit", "1000"),  # bytes per second; a stall ends, a slow clone does not
    ("http.lowSpeedTime", "60"),
    ("submodule.recurse", "false"),
    ("advice.detachedHead", "false"),
)


def make_environment(path: str = DEFAULT_PATH) -> Mapping[str, str]:
    """Return the whole environment for a git process.

    Args:
        path: the directories that git and its helpers are looked up in.
    """
    environment = {
        "PATH": path,
        "HOME": "/nonexistent",
        "XDG_CONFIG_HOME": "/nonexistent",
        "LC_ALL": "C",
        "LANGUAGE": "C",
        "TZ": "UTC",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_SYSTEM": "/dev/null",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_SSH_COMMAND": _SSH,
        "GIT_ALLOW_PROTOCOL": ":".join(ALLOWED_SCHEMES),
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_ADVICE": "0",
        "GIT_MERGE_AUTOEDIT": "no",
    }
    for role in ("AUTHOR", "COMMITTER"):
        environment[f"GIT_{role}_NAME"] = "Forkyard"
        environment[f"GIT_{role}_EMAIL"] = "forkyard@localhost"
        environment[f"GIT_{role}_DATE"] = "946684800 +0000"
    environment["GIT_CONFIG_COUNT"] = str(len(_CONFIGURATION))
    for number, (key, value) in enumerate(_CONFIGURATION):
        environment[f"GIT_CONFIG_KEY_{number}"] = key
        environment[f"GIT_CONFIG_VALUE_{number}"] = value
    return environment
