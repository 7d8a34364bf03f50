"""What is allowed: pure values and decisions."""

from policies.action import Action, canonical_arguments
from policies.canonical import Json, canonical_json, digest_bytes, digest_json
from policies.changes import Change, ChangeKind, Changes, EntryKind, show_path
from policies.decision import Decision, Verdict
from policies.errors import (
    CanonicalFormError,
    PolicyError,
    PolicyExampleError,
    PolicyFileError,
    PolicyRefusedError,
)
from policies.limits import (
    DiskLimit,
    Limits,
    Mount,
    Network,
    NetworkMode,
    RootFilesystem,
    SandboxPolicy,
)
from policies.policy import ChangeRule, CommandRule, Policy

__all__ = [
    "Action",
    "CanonicalFormError",
    "Change",
    "ChangeKind",
    "ChangeRule",
    "Changes",
    "CommandRule",
    "Decision",
    "DiskLimit",
    "EntryKind",
    "Json",
    "Limits",
    "Mount",
    "Network",
    "NetworkMode",
    "Policy",
    "PolicyError",
    "PolicyExampleError",
    "PolicyFileError",
    "PolicyRefusedError",
    "RootFilesystem",
    "SandboxPolicy",
    "Verdict",
    "canonical_arguments",
    "canonical_json",
    "digest_bytes",
    "digest_json",
    "show_path",
]
