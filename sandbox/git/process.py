"""Runs git in our environment, in our own bare repositories."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from sandbox.git.failures import make_git_failure


@dataclass(frozen=True, slots=True)
class Finished:
    """A git process that ended."""

    exit_code: int
    stdout: bytes
    stderr: bytes


@dataclass(frozen=True, slots=True)
class Git:
    """Starts git processes that inherit nothing."""

    environment: Mapping[str, str]
    """The whole environment of each process."""

    def run(self, repository: Path, arguments: Sequence[str], *, stdin: bytes = b"") -> bytes:
        """Run git in a repository of ours and return what it printed.

        Raises:
            RepositoryError: it failed.
            DiskFullError: it failed because no room is left.
        """
        finished = self.attempt(repository, arguments, stdin=stdin)
        if finished.exit_code != 0:
            raise make_git_failure(arguments, finished.stderr)
        return finished.stdout

    def attempt(
        self,
        repository: Path,
        arguments: Sequence[str],
        *,
        stdin: bytes = b"",
        limit_seconds: float | None = None,
    ) -> Finished:
        """Run git in a repository of ours; a failure is a result.

        Args:
            repository: a bare repository of ours.
            arguments: the subcommand and its arguments.
            stdin: what it reads.
            limit_seconds: how long it may take; None = no limit, for what reads only ours.

        Raises:
            TimeoutError: it took longer and was killed.
        """
        try:
            done = subprocess.run(
                self._command(repository, arguments),
                input=stdin,
                capture_output=True,
                env=dict(self.environment),
                cwd="/",
                check=False,
                timeout=limit_seconds,
            )
        except subprocess.TimeoutExpired as error:
            raise TimeoutError(f"git {arguments[0]} took more than {limit_seconds} s") from error
        return Finished(done.returncode, done.stdout, done.stderr)

    def start(
        self,
        repository: Path,
        arguments: Sequence[str],
        *,
        stderr: IO[bytes],
        keep_open: Sequence[int] = (),
    ) -> subprocess.Popen[bytes]:
        """Start git with pipes for its input and output.

        Args:
            repository: a bare repository of ours.
            arguments: the subcommand and its arguments.
            stderr: where its complaints go; a file, so that they can never block it.
            keep_open: descriptors that it holds as long as it lives, such as a lock.
        """
        return subprocess.Popen(
            self._command(repository, arguments),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            env=dict(self.environment),
            cwd="/",
            pass_fds=tuple(keep_open),
            bufsize=256 * 1024,
        )

    def run_limited(
        self, repository: Path, arguments: Sequence[str], *, limit_bytes: int
    ) -> bytes | None:
        """Run git in a repository of ours and return what it printed; None if that is more.

        Raises:
            RepositoryError: it failed.
            DiskFullError: it failed because no room is left.
        """
        with tempfile.TemporaryFile() as complaints:
            process = self.start(repository, arguments, stderr=complaints)
            try:
                assert process.stdout is not None  # noqa: S101 - opened as a pipe
                printed: bytes = process.stdout.read(limit_bytes + 1)
                if len(printed) > limit_bytes:
                    return None
                if process.wait() != 0:
                    complaints.seek(0)
                    raise make_git_failure(arguments, complaints.read())
                return printed
            finally:
                stop_process(process)

    @staticmethod
    def _command(repository: Path, arguments: Sequence[str]) -> list[str]:
        return ["git", f"--git-dir={repository}", *arguments]


def stop_process(process: subprocess.Popen[bytes]) -> None:
    """Kill a git process and close its pipes."""
    process.kill()
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            _close_quietly(stream)
    process.wait()


def _close_quietly(stream: IO[bytes]) -> None:
    try:
        stream.close()
    except BrokenPipeError:
        return  # what was still buffered has no reader, which is what we wanted
