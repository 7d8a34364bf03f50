"""Files on the host: sources, base repositories, snapshots and workspaces."""

from sandbox.git.agent_repository import BASE_IN_CONTAINER
from sandbox.git.archives import ArchiveLimits
from sandbox.git.environment import make_environment
from sandbox.git.live_workspace import GitWorkspace, WorkspacePaths
from sandbox.git.repositories import GitRepositories
from sandbox.git.walker import WalkLimits
from sandbox.git.workspaces import GitWorkspaces

__all__ = [
    "BASE_IN_CONTAINER",
    "ArchiveLimits",
    "GitRepositories",
    "GitWorkspace",
    "GitWorkspaces",
    "WalkLimits",
    "WorkspacePaths",
    "make_environment",
]
