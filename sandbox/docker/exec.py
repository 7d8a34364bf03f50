"""One command in a running container: started, attended, ended with everything it left behind."""

from __future__ import annotations

import os
import selectors
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass

from sandbox.command import CappedOutput, Command, Ending, StopSignal
from sandbox.docker.container import Container
from sandbox.docker.engine import Engine, ExecStream
from sandbox.docker.output import FrameReader
from sandbox.docker.processes import Processes
from sandbox.errors import EngineUnavailableError, SandboxError, SandboxLostError

_BUFFER_BYTES = 256 * 1024
_SEND_BYTES = 64 * 1024
_FIRST_LOOK_SECONDS = 0.05  # an exec takes about this long: most commands are over by then
_LOOK_SECONDS = 0.2  # how often the stop signal and the main process are looked at
_END_SECONDS = 15.0  # how long the engine may take to tell that a dead command is dead
_SETTLE_SECONDS = 0.001


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecEnded:
    """How a command ended, before the counters are asked why."""

    cause: Ending | None
    """TIMED_OUT or STOPPED when we ended it, otherwise None."""
    exit_code: int
    stdout: CappedOutput
    stderr: CappedOutput
    killed_processes: int
    wall_seconds: float


def run_exec(
    command: Command,
    *,
    container: Container,
    engine: Engine,
    stop: StopSignal | None,
) -> ExecEnded:
    """Run a command until it and everything that it started are gone.

    Raises:
        SandboxLostError: the container died or could not be proved clean.
        EngineError: the engine failed.
    """
    started = time.monotonic()
    exec_id = engine.create_exec(
        container.container_id,
        command.argv,
        user=container.user,
        cwd=command.cwd,
        environment=command.environment,
        stdin=bool(command.stdin),
    )
    processes = container.processes
    with ExitStack() as stack:
        # first: a start whose answer is lost may have started the command all the same
        stack.enter_context(_killing_on_error(processes))
        stream = stack.enter_context(closing(engine.start_exec(exec_id)))
        attended = _Attended(stream, command, processes=processes, stop=stop, stack=stack)
        cause = attended.attend(started + command.timeout_seconds, engine=engine)
        ended = time.monotonic()
        killed = _end(attended, processes)
        attended.check_connection()
    return ExecEnded(
        cause=cause,
        exit_code=_await_exit_code(engine, exec_id),
        stdout=attended.frames.stdout.finish(),
        stderr=attended.frames.stderr.finish(),
        killed_processes=killed,
        wall_seconds=ended - started,
    )


@contextmanager
def _killing_on_error(processes: Processes) -> Iterator[None]:
    """Leave nothing running where the engine fails in the middle: the kernel needs no engine."""
    try:
        yield
    except SandboxError:
        with suppress(SandboxError):
            processes.kill_others()
        raise


class _Attended:
    """A command under way: its output is read, its input written, its main process watched."""

    def __init__(
        self,
        stream: ExecStream,
        command: Command,
        *,
        processes: Processes,
        stop: StopSignal | None,
        stack: ExitStack,
    ) -> None:
        self._connection = stream.connection
        self._stdin = memoryview(command.stdin)
        self._processes = processes
        self._stop = stop
        self._stack = stack
        self._selector = stack.enter_context(selectors.DefaultSelector())
        self._buffer = memoryview(bytearray(_BUFFER_BYTES))
        self._main = -1
        self._moves = 0
        self.frames = FrameReader(command.output_bytes)
        self.at_end = False
        """The engine closed the connection: no more output."""
        self._was_cut = False
        self._heard_after_end = False
        self.frames.feed(memoryview(stream.early))
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if command.stdin else 0)
        self._selector.register(self._connection, events)

    def attend(self, deadline: float, *, engine: Engine) -> Ending | None:
        """Return when the command's main process is gone, or the reason to end it.

        Raises:
            EngineUnavailableError: the connection ended with the engine, not with the command.
        """
        look = time.monotonic() + _FIRST_LOOK_SECONDS
        while True:
            now = time.monotonic()
            if now >= deadline:
                return Ending.TIMED_OUT
            if self._stop is not None and self._stop.is_set():
                return Ending.STOPPED
            if now >= look:
                look = now + _LOOK_SECONDS
                if self._look_for_main():
                    return None
            if self._move(min(look, deadline) - now) or self._is_over():
                return None
            self._check_early_end(engine)

    def check_connection(self) -> None:
        """Make sure that the output is whole.

        Raises:
            EngineUnavailableError: the connection was cut.
        """
        if self._was_cut:
            raise EngineUnavailableError("the engine cut the connection of a command")

    def drain(self, seconds: float) -> bool:
        """Read what is still to come, for a while; return whether there was anything."""
        deadline = time.monotonic() + seconds
        before = self._moves
        while not self.at_end and (left := deadline - time.monotonic()) > 0:
            self._move(left)
        return self._moves > before

    def _check_early_end(self, engine: Engine) -> None:
        """Tell a command that closed its output from an engine that died: both look the same."""
        if self.at_end and not self._heard_after_end:
            self.check_connection()
            engine.ping()
            self._heard_after_end = True

    def _is_over(self) -> bool:
        """Tell whether nobody can be waited for: a command may close its output and go on."""
        return self.at_end and (self._processes.have_settled() or self._look_for_main())

    def _look_for_main(self) -> bool:
        """Find the main process to be told of its exit; return True if it has exited already."""
        if self._main >= 0:
            return False
        found = self._processes.find_main()
        if found.pid:
            with suppress(ProcessLookupError):
                self._main = os.pidfd_open(found.pid)
                self._stack.callback(os.close, self._main)
                self._selector.register(self._main, selectors.EVENT_READ)
        return found.gone

    def _move(self, seconds: float) -> bool:
        """Wait for something to do and do it; return True when the main process exited."""
        main_exited = False
        for key, events in self._selector.select(max(0.0, seconds)):
            if key.fd == self._main:
                self._selector.unregister(self._main)
                main_exited = True
                continue
            if events & selectors.EVENT_READ:
                self._receive()
            if events & selectors.EVENT_WRITE and not self.at_end:
                self._send()
        return main_exited

    def _receive(self) -> None:
        try:
            count = self._connection.recv_into(self._buffer)
        except BlockingIOError:
            return
        except ConnectionError:
            self._was_cut = True
            count = 0
        self._moves += 1
        if count:
            self.frames.feed(self._buffer[:count])
        else:
            self.at_end = True
            self._selector.unregister(self._connection)

    def _send(self) -> None:
        try:
            sent = self._connection.send(self._stdin[:_SEND_BYTES])
            self._stdin = self._stdin[sent:]
        except BlockingIOError:
            return
        except ConnectionError:
            self._stdin = self._stdin[:0]  # nobody reads it; that is the command's business
        if not self._stdin:
            with suppress(OSError):
                self._connection.shutdown(socket.SHUT_WR)
            self._selector.modify(self._connection, selectors.EVENT_READ)


def _end(attended: _Attended, processes: Processes) -> int:
    """Kill what is left and read the last output; return how many were killed.

    The engine closes the connection once nobody can write any more. It may also be that it has
    not started the command yet when the time is over: then the next round kills it.
    """
    killed = processes.kill_others()
    deadline = time.monotonic() + _END_SECONDS
    while not attended.at_end:
        if attended.drain(_LOOK_SECONDS):
            deadline = time.monotonic() + _END_SECONDS
        if time.monotonic() >= deadline:
            raise SandboxLostError("the engine does not tell whether the command has ended")
        killed += processes.kill_others()
    return killed


def _await_exit_code(engine: Engine, exec_id: str) -> int:
    deadline = time.monotonic() + _END_SECONDS
    pause = _SETTLE_SECONDS
    while (code := engine.exec_exit_code(exec_id)) is None:
        if time.monotonic() >= deadline:
            raise SandboxLostError("the engine does not tell how the command ended")
        time.sleep(pause)
        pause = min(2 * pause, _LOOK_SECONDS)
    return code
