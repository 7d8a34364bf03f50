"""Reads batch files and the script files that they name."""

from runner.adapters.batch_file.load import load_batch_file, load_batch_text
from runner.adapters.batch_file.policy_source import FilePolicies, PolicySource
from runner.adapters.batch_file.schema import make_batch_schema

__all__ = [
    "FilePolicies",
    "PolicySource",
    "load_batch_file",
    "load_batch_text",
    "make_batch_schema",
]
