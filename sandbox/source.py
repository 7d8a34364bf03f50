"""Where a task's files come from."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from sandbox.snapshot import CommitId, History, RepositoryId


class SourceKind(StrEnum):
    """How a source is reached."""

    #: a git repository on this host
    PATH = "path"
    #: a git repository behind a URL of an allowed scheme
    URL = "url"
    #: a tar or zip file on this host
    ARCHIVE = "archive"


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A repository and the commit to start from, as the user named them."""

    kind: SourceKind
    location: str
    """Absolute path, or URL without credentials."""
    ref: str = "HEAD"
    """Branch, tag or commit; unused for an archive."""
    history: History = History.FULL
    include: tuple[str, ...] = ()
    """What no commit holds and is taken too: `uncommitted`, `untracked`, globs of ignored files;
    for a checkout alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedSource:
    """A source whose base commit is in our own repository."""

    repository_id: RepositoryId
    commit: CommitId
    """The resolved base commit; fixed for the task from now on."""
    history: History
    notes: tuple[str, ...] = ()
    """What a user should know of the files: what is not included, submodules, pointers."""
