"""The options of `task run` as the text of a batch file: both are read by the same rules."""

from __future__ import annotations

import shlex
from pathlib import Path

import yaml

from runner.bootstrap import read_batch_text
from runner.domain.task import BatchSpec, Strict
from runner.errors import BatchFileError, UsageError
from runner.settings import Settings

_OPTIONS = {
    "agent": "--script",
    "constraints": "--protect",
    "goal": "--goal",
    "id": "--name",
    "image": "--image",
    "policy": "--policy",
    "verify": "--verify",
}
"""Which option a field of the task comes from."""


class OneTask(Strict):
    """What `task run` was asked for."""

    repo: str
    ref: str
    goal: str
    script: str
    verify: str
    image: str
    policy: str
    protect: tuple[str, ...]
    forbid_delete: bool
    name: str
    expect: str


def read_one_task(asked: OneTask, settings: Settings) -> BatchSpec:
    """Return the batch with this one task; paths are relative to the working folder.

    Raises:
        UsageError: an option has a value that cannot be used.
        BatchFileError: the file of the script cannot be used.
    """
    file = Path.cwd() / "(command line)"
    try:
        return read_batch_text(write_batch_text(asked), settings, file=file)
    except BatchFileError as error:
        if error.file != str(file):
            raise
        told = dict.fromkeys(
            f"{_find_option(one)}: {one.problem}" for one in (error, *error.others)
        )
        raise UsageError("\n".join(told)) from error


def _find_option(error: BatchFileError) -> str:
    if error.field == "name":
        return "--name"
    field = error.field.removeprefix("tasks[0].")
    if field.startswith("repo"):
        return "--ref" if field.endswith(".ref") else "--repo"
    name = field.partition(".")[0].partition("[")[0]
    return _OPTIONS.get(name, error.field or "options")


def write_batch_text(asked: OneTask) -> str:
    """Return the YAML of a batch with this one task.

    Raises:
        UsageError: the verification is no command line.
    """
    try:
        verify = shlex.split(asked.verify)
    except ValueError as error:
        raise UsageError(f"--verify: {error} in {asked.verify!r}") from error
    task: dict[str, object] = {
        "id": asked.name,
        "repo": {_kind_of(asked.repo): asked.repo, "ref": asked.ref},
        "goal": asked.goal,
        "image": asked.image,
        "policy": asked.policy,
        "agent": {"kind": "scripted", "script": asked.script},
        "verify": {"argv": verify},
        "constraints": _constraints(asked),
        "expect": [asked.expect],
    }
    whole = {"version": 1, "name": asked.name, "tasks": [task]}
    return yaml.safe_dump(whole, sort_keys=False, allow_unicode=True)


def _constraints(asked: OneTask) -> list[dict[str, object]]:
    constraints: list[dict[str, object]] = []
    if asked.protect:
        text = f"Do not change {', '.join(asked.protect)}"
        constraints.append({"text": text, "protect": list(asked.protect)})
    if asked.forbid_delete:
        constraints.append({"text": "Do not delete files", "forbid": "delete"})
    return constraints


def _kind_of(repo: str) -> str:
    if "://" in repo:
        return "url"
    return "archive" if Path(repo).is_file() else "path"
