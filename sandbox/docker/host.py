"""Sandboxes on a local Docker engine: the portable implementation of SandboxHost."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

from policies import Changes
from sandbox.docker.container import Container, open_container
from sandbox.docker.engine import Engine, ImageFacts
from sandbox.docker.failures import translated
from sandbox.docker.images import ImageBuilder
from sandbox.docker.reaper import reap
from sandbox.docker.removals import Removals
from sandbox.docker.room import HostRoom, KeptFree, measure_room
from sandbox.docker.sandbox import DockerSandbox
from sandbox.docker.specification import ContainerPlace, refuse_unenforced
from sandbox.docker.volumes import Volume, VolumeOwner, VolumeStore
from sandbox.docker.workspaces import Repositories, Workspaces
from sandbox.errors import UnsupportedError
from sandbox.sandbox import Room, Sandbox, SandboxSpec
from sandbox.snapshot import CommitId, Snapshot
from sandbox.source import ImportedSource, Source

AGENT = "agent"
"""The purpose whose workspace is a registered worktree."""

_STARTS_PARALLEL = 3  # more starts at once only make each slower (measured: bench)
_IPV6 = Path("/proc/sys/net/ipv6")


class DockerSandboxHost:
    """Makes sandboxes on one engine; see SandboxHost. Threads may share it."""

    def __init__(
        self,
        *,
        engine: Engine,
        workspaces: Workspaces,
        repositories: Repositories,
        home: Path,
        instance_id: str,
        owner: tuple[int, int],
        images: ImageBuilder | None = None,
        kept_free: KeptFree | None = None,
    ) -> None:
        """Put the parts together; nothing is made yet.

        Args:
            engine: on this host.
            workspaces: what fills volumes and reads snapshots.
            repositories: what knows the base repositories.
            home: `$FORKYARD_HOME`; volumes are below its `work`.
            instance_id: whose containers and volumes these are, on every label.
            owner: uid and gid inside.
            images: knows built-in names; without it, local references alone are resolved.
            kept_free: of the host's disk; a command that leaves less is ended.
        """
        self._engine = engine
        self._removals = Removals(engine)
        self._workspaces = workspaces
        self._repositories = repositories
        self._images = images
        self._instance_id = instance_id
        self._uid, self._gid = owner
        self._volumes = VolumeStore(home / "work", may_mount=os.geteuid() == 0)
        self._home = home
        self._room = HostRoom(home, kept_free or KeptFree())
        self._engine_place: Path | None = None
        self._starts = threading.BoundedSemaphore(_STARTS_PARALLEL)

    def check_engine(self) -> None:
        """Ask the engine for a sign of life; see SandboxHost."""
        self._engine.ping()

    def list_rooms(self) -> tuple[Room, ...]:
        """Return what is free for our home and for the engine; see SandboxHost."""
        if self._engine_place is None:
            self._engine_place = Path(self._engine.data_root())
        places = [("home", self._home)]
        if self._engine_place.is_dir():  # not so where the engine is in a machine of its own
            places.append(("engine", self._engine_place))
        with translated("look at the room on the disk"):
            return tuple(measure_room(used_for, path) for used_for, path in places)

    def resolve_image(self, reference: str) -> str:
        """Return the image id of a built-in name or a local reference; see SandboxHost."""
        if self._images is not None:
            return self._images.resolve(reference)
        return self._engine.image_facts(reference).image_id

    def import_source(self, source: Source) -> ImportedSource:
        """Bring a source's base commit into our own repository; see SandboxHost."""
        return self._repositories.import_source(source)

    def start_snapshot(self, source: ImportedSource, *, task_id: str) -> Snapshot:
        """Return the snapshot of an untouched checkout; see SandboxHost."""
        return self._workspaces.start_snapshot(source, task_id=task_id)

    @contextmanager
    def open_sandbox(self, spec: SandboxSpec) -> Iterator[Sandbox]:
        """Make a container on a snapshot; see SandboxHost."""
        image = self._engine.image_facts(spec.image)
        refuse_unenforced(spec)
        _refuse_unusable_mounts(spec)
        self._volumes.check(spec.disk)
        with ExitStack() as stack:
            volume = stack.enter_context(self._open_volume(spec))
            workspace = stack.enter_context(
                self._workspaces.open_workspace(
                    volume.files,
                    task_id=spec.line or spec.task_id,
                    start=spec.start,
                    lay=spec.lay,
                    register=spec.purpose == AGENT,
                    erase=False,
                )
            )
            container = self._enter_container(spec, volume, image=image, stack=stack)
            yield DockerSandbox(
                container=container,
                volume=volume,
                workspace=workspace,
                engine=self._engine,
                room=self._room,
            )

    def changes_between(self, before: Snapshot, after: Snapshot) -> Changes:
        """Compare the workspaces of two snapshots; see SandboxHost."""
        return self._workspaces.changes_between(before, after)

    def make_patch(self, snapshot: Snapshot) -> bytes:
        """Return the patch from the base to `source_tree`; see SandboxHost."""
        return self._workspaces.make_patch(snapshot)

    def export_branch(
        self, snapshot: Snapshot, repository: str, *, branch: str, message: str
    ) -> CommitId:
        """Make a branch in a user's repository; see SandboxHost."""
        return self._workspaces.export_branch(snapshot, repository, branch=branch, message=message)

    def apply_to_checkout(self, snapshot: Snapshot, repository: str) -> tuple[bytes, ...]:
        """Write a task's changes into a user's checkout; see SandboxHost."""
        return self._workspaces.apply_to_checkout(snapshot, repository)

    def read_source_file(self, snapshot: Snapshot, path: str) -> bytes | None:
        """Return the bytes of a file of `source_tree`, or None; see SandboxHost."""
        return self._workspaces.read_source_file(snapshot, path)

    def reap(self, find_live: Callable[[], Collection[tuple[str, int]]]) -> int:
        """Remove what this instance made for other than the live attempts; see SandboxHost."""
        return reap(
            find_live,
            engine=self._engine,
            removals=self._removals,
            volumes=self._volumes,
            instance_id=self._instance_id,
            forget=self._workspaces.prune,
        )

    def tidy(self) -> None:
        """Join the packs of snapshots where there are many; see SandboxHost."""
        for repository in self._repositories.list_repositories():
            self._repositories.tidy(repository)

    def release(self, task_id: str) -> None:
        """Forget a task's worktree entry and volume; see SandboxHost."""
        for name, owner in self._volumes.list_owners():
            if owner.task_id == task_id:
                self._volumes.remove(name, owner=owner, forget=self._workspaces.prune)

    def _open_volume(self, spec: SandboxSpec) -> AbstractContextManager[Volume]:
        name = spec.task_id if spec.purpose == AGENT else f"{spec.task_id}.{spec.purpose}"
        return self._volumes.open_volume(
            name,
            VolumeOwner(self._instance_id, spec.task_id, spec.attempt),
            limits=spec.limits,
            disk=spec.disk,
        )

    def _enter_container(
        self, spec: SandboxSpec, volume: Volume, *, image: ImageFacts, stack: ExitStack
    ) -> Container:
        start = spec.start
        base = self._repositories.base_repository(
            start.repository_id, start.base_commit, start.history
        )
        place = ContainerPlace(
            instance_id=self._instance_id,
            uid=self._uid,
            gid=self._gid,
            files=str(volume.files),
            base_repository=str(base),
            image_volumes=image.volumes,
            cpus=os.cpu_count() or 1,
            has_ipv6=_IPV6.is_dir(),
        )
        with self._starts:
            return stack.enter_context(
                open_container(spec, place, engine=self._engine, removals=self._removals)
            )


def _refuse_unusable_mounts(spec: SandboxSpec) -> None:
    for mount in spec.mounts:
        if not Path(mount.source).exists():
            raise UnsupportedError(f"mount source {mount.source!r} does not exist on this host")
        real = os.path.realpath(mount.source)
        if real != mount.source:  # the link may be of a task's making, or lead out of the list
            raise UnsupportedError(
                f"mount source {mount.source!r} leads through a link to {real!r}"
            )
