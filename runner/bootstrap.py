"""The composition root: the one module that names implementations."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import sandbox
from runner.adapters.batch_file import FilePolicies, load_batch_file, load_batch_text
from runner.adapters.memory_queue import MemoryRunQueue
from runner.adapters.model_catalog import HttpModelCatalog
from runner.adapters.probe_folder import open_probe_folder
from runner.adapters.process_identity import is_holder_gone, make_holder
from runner.adapters.results import FolderResultsWriter
from runner.adapters.sql import open_sql_store
from runner.adapters.system_clock import SystemClock, SystemEntropy
from runner.application.capacity import Capacity, HostSize, LeastRoom
from runner.application.examine_host import Doctor, KnownImage, ProbeRoom
from runner.application.ports.results import ResultsWriter
from runner.application.services import Services
from runner.domain.task import BatchSpec
from runner.errors import MissingError
from runner.settings import Settings
from sandbox import Source, SourceKind
from sandbox.docker.engine import open_engine
from sandbox.docker.host import DockerSandboxHost
from sandbox.docker.image_engine import open_image_engine
from sandbox.docker.images import ImageBuilder
from sandbox.docker.survey import DockerSurvey
from sandbox.git.repositories import GitRepositories
from sandbox.git.workspaces import GitWorkspaces

PRIVATE = 0o700


@dataclass(frozen=True, slots=True, kw_only=True)
class App:
    """Everything that entry points use."""

    settings: Settings
    services: Services
    capacity: Capacity
    results: ResultsWriter


@contextmanager
def open_app(settings: Settings) -> Iterator[App]:
    """Build the adapters for this host and close them afterwards.

    Raises:
        MissingError: the home cannot be made.
        StoreError: the store cannot be opened safely.
        EngineError: the engine cannot be used.
        UnsupportedError: this host lacks what is needed.
    """
    make_home(settings.home)
    with ExitStack() as stack:
        store = stack.enter_context(open_sql_store(settings.store_url))
        models = stack.enter_context(
            HttpModelCatalog(clock=SystemClock(), entropy=SystemEntropy())
        )
        engine = stack.enter_context(open_engine(settings.engine_url))
        repositories = GitRepositories(settings.home)
        host = DockerSandboxHost(
            engine=engine,
            repositories=repositories,
            workspaces=GitWorkspaces(repositories, owner=settings.owner),
            home=settings.home,
            instance_id=read_instance_id(settings.home),
            owner=settings.owner,
            images=stack.enter_context(open_images(settings)),
        )
        services = Services(
            store=store,
            queue=MemoryRunQueue(),
            host=host,
            models=models,
            clock=SystemClock(),
            entropy=SystemEntropy(),
            holder=make_holder(os.getpid()),
            is_holder_gone=is_holder_gone,
            passed_environment=settings.environment,
            version=version("forkyard"),
            least_room=LeastRoom(
                free_mib=settings.least_free_mib, free_inodes=settings.least_free_inodes
            ),
        )
        size = HostSize(memory_mib=settings.memory_mib, cpu_thousandths=settings.cpu_thousandths)
        yield App(
            settings=settings,
            services=services,
            capacity=Capacity(size),
            results=FolderResultsWriter(),
        )


def read_batch_file(file: Path, settings: Settings) -> BatchSpec:
    """Read a batch file with this home's policies.

    Raises:
        BatchFileError: it cannot be used.
    """
    return load_batch_file(file, policies=_make_policies(settings))


def read_batch_text(text: str, settings: Settings, *, file: Path) -> BatchSpec:
    """Read the text of a batch file; errors name `file`, and paths are relative to it.

    Raises:
        BatchFileError: it cannot be used.
    """
    return load_batch_text(text, file=file, policies=_make_policies(settings))


def _make_policies(settings: Settings) -> FilePolicies:
    return FilePolicies(folder=settings.home / "policies", mount_roots=settings.mount_roots)


@contextmanager
def open_images(settings: Settings) -> Iterator[ImageBuilder]:
    """Connect to the engine's images.

    Raises:
        EngineUnavailableError: nothing answers there.
    """
    with open_image_engine(settings.engine_url) as engine:
        yield ImageBuilder(engine, Path(sandbox.__file__).parent.parent / "images")


def make_doctor(settings: Settings) -> Doctor:
    """Put together what examines this host; nothing is opened yet."""
    return Doctor(
        survey=DockerSurvey(settings.engine_url, home=settings.home),
        open_room=lambda: open_probe_room(settings),
        list_images=lambda: _list_images(settings),
        memory_mib=settings.memory_mib,
    )


@contextmanager
def open_probe_room(settings: Settings) -> Iterator[ProbeRoom]:
    """Make a place for probe containers, with an instance id of its own: no reaper takes them.

    Raises:
        ConflictError: another process examines the same home.
        EngineError: the engine cannot be used.
        MissingError: the folder cannot be made or removed.
    """
    name = hashlib.sha256(os.fsencode(settings.home)).hexdigest()[:12]
    with (
        open_probe_folder(settings.home) as folder,
        open_images(settings) as images,
        open_engine(settings.engine_url) as engine,
    ):
        repositories = GitRepositories(folder.path)
        host = DockerSandboxHost(
            engine=engine,
            repositories=repositories,
            workspaces=GitWorkspaces(repositories, owner=settings.owner),
            home=folder.path,
            instance_id=f"doctor{name}",
            owner=settings.owner,
            images=images,
        )
        host.reap(tuple)  # what an examination left that was killed
        yield ProbeRoom(
            host=host, source=Source(kind=SourceKind.ARCHIVE, location=str(folder.archive))
        )


def _list_images(settings: Settings) -> tuple[KnownImage, ...]:
    with open_images(settings) as builder:
        return tuple(
            KnownImage(name=one.name, image_id=one.image_id) for one in builder.list_images()
        )


def make_home(home: Path) -> None:
    """Make `$FORKYARD_HOME`, readable by its owner alone.

    Raises:
        MissingError: it cannot be made, or nothing can be made in it.
    """
    try:
        home.mkdir(mode=PRIVATE, parents=True, exist_ok=True)
        home.chmod(PRIVATE)
        with tempfile.TemporaryFile(dir=home):
            pass
    except OSError as error:
        raise MissingError(
            f"FORKYARD_HOME is {str(home)!r}: {error.strerror or error};"
            " a folder that can be made and written to is expected"
        ) from error


def read_instance_id(home: Path) -> str:
    """Return the id of this home, made on first use: the label of all that it makes on engines."""
    path = home / "instance"
    if not path.exists():
        fresh = SystemEntropy().random_bytes(6).hex()
        temporary = home / f"instance.{os.getpid()}"
        temporary.write_text(fresh + "\n")
        try:
            os.link(temporary, path)  # the first of several processes wins
        except FileExistsError:
            pass
        finally:
            temporary.unlink()
    return path.read_text().strip()
