"""Looks at a Docker engine and at the Linux host that it runs on."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from docker import APIClient

from sandbox.docker.failures import translated
from sandbox.docker.host_features import describe_host
from sandbox.survey import EngineFacts, HostFacts

_MIB = 1024 * 1024
_ANSWER_SECONDS = 10
_UNIX = "unix://"
_LIMITS = (
    ("MemoryLimit", "memory"),
    ("SwapLimit", "swap"),
    ("PidsLimit", "processes"),
    ("CpuCfsQuota", "CPU"),
)


class DockerSurvey:
    """Looks at one engine and at this host; see HostSurvey."""

    def __init__(self, url: str, *, home: Path) -> None:
        """Remember where to look.

        Args:
            url: the engine's address.
            home: where volumes are made; need not exist yet.
        """
        self._url = url
        self._home = home

    def describe_engine(self) -> EngineFacts:
        """Return what the engine says of itself; see HostSurvey."""
        with translated(f"connect to {self._url}"):
            _knock(self._url)
            client = APIClient(self._url, version="auto", timeout=_ANSWER_SECONDS)
        client.trust_env = False  # a proxy of the environment is not for the engine
        try:
            with translated("describe itself"):
                info: Mapping[str, Any] = client.info()
                version: Mapping[str, Any] = client.version()
        finally:
            client.close()
        return make_engine_facts(info, version)

    def describe_host(self) -> HostFacts:
        """Return what this host has; see HostSurvey."""
        return describe_host(self._home)


def _knock(url: str) -> None:
    """Connect once by ourselves: a connection that fails in the SDK is never closed.

    Raises:
        OSError: nobody listens there.
    """
    if url.startswith(_UNIX):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as one:
            one.settimeout(_ANSWER_SECONDS)
            one.connect(url.removeprefix(_UNIX))


def make_engine_facts(info: Mapping[str, Any], version: Mapping[str, Any]) -> EngineFacts:
    """Return facts from an engine's answers to `info` and `version`."""
    parts = {one["Name"]: str(one["Version"]) for one in version.get("Components") or ()}
    status = dict(tuple(pair) for pair in info.get("DriverStatus") or ())
    return EngineFacts(
        version=str(info["ServerVersion"]),
        api_version=str(version["ApiVersion"]),
        cgroup_version=int(info.get("CgroupVersion") or 1),  # not told before 20.10
        cgroup_driver=str(info.get("CgroupDriver", "")),
        storage_driver=str(info.get("Driver", "")),
        backing_filesystem=str(status.get("Backing Filesystem", "")),
        runc_version=parts.get("runc", ""),
        containerd_version=parts.get("containerd", ""),
        init_version=parts.get("docker-init", ""),
        kernel=str(info.get("KernelVersion", "")),
        architecture=str(info.get("Architecture", "")),
        cpus=int(info.get("NCPU", 0)),
        memory_mib=int(info.get("MemTotal", 0)) // _MIB,
        security_options=tuple(
            part.removeprefix("name=")
            for option in info.get("SecurityOptions") or ()
            for part in str(option).split(",")
            if part.startswith("name=")
        ),
        missing_limits=tuple(word for key, word in _LIMITS if info.get(key) is False),
    )
