"""Where commands run: containers, workspaces, snapshots, limits."""

from sandbox.command import CappedOutput, Command, CommandResult, Ending, StopSignal
from sandbox.errors import (
    BranchExistsError,
    CommandRefusedError,
    DiskFullError,
    EngineError,
    EngineUnavailableError,
    ImageMissingError,
    RepositoryError,
    SandboxError,
    SandboxLostError,
    SnapshotError,
    SourceError,
    UnsupportedError,
)
from sandbox.sandbox import LaidSource, Sandbox, SandboxHost, SandboxSpec
from sandbox.snapshot import (
    CommitId,
    Coverage,
    History,
    LeftOut,
    RepositoryId,
    Snapshot,
    SnapshotId,
    SnapshotTaken,
)
from sandbox.source import ImportedSource, Source, SourceKind

__all__ = [
    "BranchExistsError",
    "CappedOutput",
    "Command",
    "CommandRefusedError",
    "CommandResult",
    "CommitId",
    "Coverage",
    "DiskFullError",
    "Ending",
    "EngineError",
    "EngineUnavailableError",
    "History",
    "ImageMissingError",
    "ImportedSource",
    "LaidSource",
    "LeftOut",
    "RepositoryError",
    "RepositoryId",
    "Sandbox",
    "SandboxError",
    "SandboxHost",
    "SandboxLostError",
    "SandboxSpec",
    "Snapshot",
    "SnapshotError",
    "SnapshotId",
    "SnapshotTaken",
    "Source",
    "SourceError",
    "SourceKind",
    "StopSignal",
    "UnsupportedError",
]
