"""What is allowed: pure values and decisions."""

from policies.action import Action, canonical_arguments
from policies.canonical import Json, canonical_json, digest_bytes, digest_json
from policies.changes import Change, ChangeKind, Changes, EntryKind, show_path
from policies.constraint import make_constraint_rules, with_change_rules
from policies.decision import Decision, Verdict
from policies.errors import (
    CanonicalFormError,
    GlobError,
    PolicyError,
    PolicyExampleError,
    PolicyFileError,
    PolicyRefusedError,
    RuleError,
)
from policies.executed_paths import FlaggedPath, flag_change, is_package_json
from policies.explain import explain_action, explain_change
from policies.glob import Glob, match_path, parse_glob
from policies.limits import (
    DiskLimit,
    Limits,
    Mount,
    Network,
    NetworkMode,
    RootFilesystem,
    SandboxPolicy,
)
from policies.load import BUILTIN_NAMES, load_policy
from policies.package_scripts import same_package_scripts
from policies.policy import ChangeRule, CommandRule, Policy
from policies.repository import repository_file
from policies.rules import judge_action, judge_changes
from policies.schema import schema_text
from policies.source import parse_policy

__all__ = [
    "BUILTIN_NAMES",
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
    "FlaggedPath",
    "Glob",
    "GlobError",
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
    "RuleError",
    "SandboxPolicy",
    "Verdict",
    "canonical_arguments",
    "canonical_json",
    "digest_bytes",
    "digest_json",
    "explain_action",
    "explain_change",
    "flag_change",
    "is_package_json",
    "judge_action",
    "judge_changes",
    "load_policy",
    "make_constraint_rules",
    "match_path",
    "parse_glob",
    "parse_policy",
    "repository_file",
    "same_package_scripts",
    "schema_text",
    "show_path",
    "with_change_rules",
]
