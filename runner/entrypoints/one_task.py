"""The options of `task run` as the text of a batch file: both are read by the same rules."""

from __future__ import annotations

import shlex
from pathlib import Path

import yaml

from runner.domain.task import Strict


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


def write_batch_text(asked: OneTask) -> str:
    """Return the YAML of a batch with this one task."""
    task: dict[str, object] = {
        "id": asked.name,
        "repo": {_kind_of(asked.repo): asked.repo, "ref": asked.ref},
        "goal": asked.goal,
        "image": asked.image,
        "policy": asked.policy,
        "agent": {"kind": "scripted", "script": asked.script},
        "verify": {"argv": shlex.split(asked.verify)},
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
