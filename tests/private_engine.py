"""An engine of a test's own, which may be stopped: own network namespace, data and sockets.

Needs root. Its one image is made from a few programs of this host, so that nothing is copied from
the shared engine. It is started and stopped by its own process id alone.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import signal
import subprocess
import tarfile
import time
from pathlib import Path
from types import TracebackType
from typing import Self

import docker

_PROGRAMS = ("sh", "bash", "sleep", "cat", "true")
_START_SECONDS = 20
_STOP_SECONDS = 20
_POLL_SECONDS = 0.05


class PrivateEngine:
    """A dockerd below one folder. A context manager."""

    def __init__(self, folder: Path) -> None:
        """Say where everything of it is; a short path, since sockets have short names."""
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self.image = ""
        """Id of its image, once it has been started."""

    @property
    def url(self) -> str:
        """What to connect to."""
        return f"unix://{self._folder}/e.sock"

    def __enter__(self) -> Self:
        self.start()
        self.image = self._import_image()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start it and return when it answers."""
        folder = self._folder
        with (folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    *("unshare", "--net", "dockerd"),
                    *("--data-root", str(folder / "data"), "--exec-root", str(folder / "exec")),
                    *("--pidfile", str(folder / "pid"), "--host", self.url),
                    *("--containerd-namespace", f"t{os.getpid()}"),
                    *("--containerd-plugins-namespace", f"t{os.getpid()}p"),
                    *("--bridge", "none", "--iptables=false", "--ip-forward=false"),
                ],
                stdout=log,
                stderr=log,
            )
        client = docker.APIClient(self.url, version="1.41", timeout=5)
        deadline = time.monotonic() + _START_SECONDS
        try:
            while not _answers(client):
                assert self._process.poll() is None, (folder / "log").read_text()[-2000:]
                assert time.monotonic() < deadline, (folder / "log").read_text()[-2000:]
                time.sleep(_POLL_SECONDS)
        finally:
            client.close()

    def stop(self) -> None:
        """Stop it, and with it every container."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(timeout=_STOP_SECONDS)
        finally:
            if self._process.poll() is None:
                self._process.kill()
                self._process.wait()
            self._process = None

    def _import_image(self) -> str:
        client = docker.DockerClient(self.url, timeout=20)
        try:
            imported = client.api.import_image_from_data(make_root(), repository="test/tiny")
            return str(client.images.get(re.search("sha256:[0-9a-f]+", imported)[0]).id)
        finally:
            client.close()


def _answers(client: docker.APIClient) -> bool:
    try:
        return bool(client.ping())
    except (docker.errors.DockerException, OSError):
        return False


def make_root() -> bytes:
    """Return a tar of a root file system: a shell, a few programs and what they are linked to."""
    files: set[str] = set()
    for program in _PROGRAMS:
        path = shutil.which(program, path="/usr/bin:/bin")
        assert path is not None
        files.add(f"/bin/{program}")
        said = subprocess.run(["ldd", path], capture_output=True, check=True).stdout.decode()
        files.update(re.findall(r"(/\S+) \(0x", said))
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for name in sorted(files):
            info = tar.gettarinfo(os.path.realpath(name), arcname=name.lstrip("/"))
            with Path(os.path.realpath(name)).open("rb") as source:
                tar.addfile(info, source)
        for name in ("proc", "sys", "dev", "run", "etc", "tmp", "workspace", "home/agent"):
            folder = tarfile.TarInfo(name)
            folder.type, folder.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(folder)
    return archive.getvalue()
