"""A sandbox on Docker: one container, one workspace, one volume."""

from __future__ import annotations

from policies import DiskLimit
from sandbox.command import Command, CommandResult, StopSignal
from sandbox.docker.container import Container
from sandbox.docker.control_group import Counters
from sandbox.docker.ending import EndingFacts, judge_ending
from sandbox.docker.engine import Engine
from sandbox.docker.exec import ExecEnded, run_exec
from sandbox.docker.failures import ConflictError, NotThereError
from sandbox.docker.room import HostRoom
from sandbox.docker.start_failure import correct_start_failure
from sandbox.docker.volumes import Volume
from sandbox.docker.workspaces import LiveWorkspace
from sandbox.errors import EngineError, EngineUnavailableError, SandboxLostError
from sandbox.snapshot import Snapshot, SnapshotTaken
from sandbox.vetting import vet_command


class DockerSandbox:
    """A running container with a live workspace; see Sandbox."""

    def __init__(
        self,
        *,
        container: Container,
        volume: Volume,
        workspace: LiveWorkspace,
        engine: Engine,
        room: HostRoom,
    ) -> None:
        self._container = container
        self._volume = volume
        self._workspace = workspace
        self._engine = engine
        self._room = room
        self._unproved = False

    @property
    def sandbox_id(self) -> str:
        """The engine's id of the container."""
        return self._container.container_id

    def run(self, command: Command, *, stop: StopSignal | None = None) -> CommandResult:
        """Run a command; return when it and every process it started are gone.

        Raises:
            CommandRefusedError: it could not be started as it stands; nothing was started.
            SandboxLostError: the container died, or could not be proved clean afterwards.
            EngineUnavailableError: the engine stopped answering; no other command can be run.
            DiskFullError: the host ran out of room: what was written cannot be trusted.
        """
        if self._unproved:
            raise SandboxLostError("the engine did not say what became of a command")
        vet_command(command)
        before = self._container.group.read_counters()
        try:
            ended = run_exec(
                command,
                container=self._container,
                engine=self._engine,
                stop=self._room.watch(stop),
            )
        except EngineUnavailableError:
            # it may start the command yet, when nobody looks any more
            self._unproved = True
            raise
        except EngineError as error:
            # a container that dies between two requests is answered with a plain 500
            if isinstance(error, ConflictError) or not self._is_running():
                raise SandboxLostError(f"the container is gone: {error}") from error
            raise
        self._room.check(self._volume)
        after = self._container.group.read_counters()
        return self._judge(correct_start_failure(ended, command), before, after)

    def take_snapshot(self) -> SnapshotTaken:
        """Record the files as they are now; see Sandbox."""
        return self._workspace.take_snapshot()

    def take_start(self) -> SnapshotTaken:
        """Record the files as what tasks start from; see Sandbox."""
        return self._workspace.take_start()

    def restore(self, snapshot: Snapshot) -> None:
        """Put the files back to a snapshot; see Sandbox."""
        self._workspace.restore(snapshot)

    def _is_running(self) -> bool:
        try:
            return bool(self._engine.inspect(self._container.container_id)["State"]["Running"])
        except NotThereError:
            return False

    def _judge(self, ended: ExecEnded, before: Counters, after: Counters) -> CommandResult:
        watched = self._volume.disk is DiskLimit.WATCHED
        used_up = self._volume.used_up() if watched or ended.exit_code != 0 else ""
        judged = judge_ending(
            EndingFacts(
                cause=ended.cause,
                exit_code=ended.exit_code,
                oom_kills=after.oom_kills - before.oom_kills,
                pids_refused=after.pids_refused - before.pids_refused,
                used_up=used_up,
                disk_full=bool(used_up) and not watched,
                disk_over=bool(used_up) and watched,
            )
        )
        return CommandResult(
            ending=judged.ending,
            exit_code=judged.exit_code,
            stdout=ended.stdout,
            stderr=ended.stderr,
            wall_seconds=ended.wall_seconds,
            cpu_seconds=max(0.0, after.cpu_seconds - before.cpu_seconds),
            killed_processes=ended.killed_processes,
            limit=judged.limit,
            detail=judged.detail,
        )
