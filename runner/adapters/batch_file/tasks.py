"""Turns one task of a file, with the defaults laid below, into what is stored."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from policies import GlobError, NetworkMode, PolicyError, RuleError, parse_glob, parse_policy
from runner.adapters.batch_file.document import Document
from runner.adapters.batch_file.document import Path as FieldPath
from runner.adapters.batch_file.entries import (
    BudgetEntry,
    BuildEntry,
    ConstraintEntry,
    RepositoryEntry,
    ScriptedAgentEntry,
    SharedEntry,
    TaskEntry,
    VerifyEntry,
)
from runner.adapters.batch_file.merging import merge_task
from runner.adapters.batch_file.policy_source import PolicySource
from runner.adapters.batch_file.reading import UnusablePathError, resolve_beside
from runner.adapters.batch_file.scripts import ScriptReader
from runner.domain.outcome import Outcome
from runner.domain.task import (
    BUILD_PREFIX,
    AgentKind,
    AgentSpec,
    BudgetSpec,
    ConstraintSpec,
    RepositorySpec,
    SetupSpec,
    TaskSpec,
    VerifySpec,
)
from runner.errors import BatchFileError

MAX_URL_CHARACTERS = 4096
"""Longer than any address of a repository."""

_GIVE = "missing; give it here or under defaults"


@dataclass(slots=True)
class TaskReader:
    """Reads tasks and collects what is wrong with them."""

    document: Document
    policies: PolicySource
    faults: list[BatchFileError]
    scripts: ScriptReader = field(init=False)
    merged: dict[tuple[str, str, tuple[ConstraintSpec, ...]], str] = field(default_factory=dict)
    """Policies that were merged already."""
    networks: dict[str, tuple[NetworkMode, ...]] = field(default_factory=dict)
    """What each merged policy allows a setup."""

    def __post_init__(self) -> None:
        self.scripts = ScriptReader(self.document)

    def read(self, index: int, defaults: SharedEntry, entry: TaskEntry) -> TaskSpec | None:
        """Return the task, or None when something is wrong with it."""
        before = len(self.faults)
        task = merge_task(defaults, entry)
        repo = self._read_repo(index, task.repo)
        constraints = tuple(_make_constraint(one) for one in task.constraints or ())
        image = self._read_image(index, task)
        policy = self._read_policy(index, task, repo, constraints)
        agent = self._read_agent(index, task)
        setup = self._read_setup(index, task, policy)
        verify = self._read_verify(index, task)
        self._check_globs(index, task)
        if len(self.faults) > before or repo is None:
            return None
        return TaskSpec(
            name=task.id,
            goal=task.goal,
            repo=repo,
            image=image,
            policy=policy,
            agent=agent,
            budget=_make_budget(task.budget or BudgetEntry()),
            constraints=constraints,
            setup=setup,
            verify=verify,
            expect=task.expect or (Outcome.VERIFIED,),
        )

    def _fail(self, index: int, text: str, *path: str) -> None:
        self.faults.append(self.document.problem(text, *_places(index, path)))

    def _resolve(self, index: int, text: str, *path: str) -> Path | None:
        """Return the absolute path, or None when no file can have it."""
        try:
            return resolve_beside(self.document.file, text)
        except UnusablePathError as error:
            self._fail(index, str(error), *path)
            return None

    def _read_repo(self, index: int, repo: RepositoryEntry | None) -> RepositorySpec | None:
        if repo is None:
            self._fail(index, _GIVE, "repo")
            return None
        kinds = [kind for kind in ("path", "url", "archive") if getattr(repo, kind) is not None]
        if len(kinds) != 1:
            self._fail(index, "give exactly one of path, url and archive", "repo")
            return None
        kind = kinds[0]
        return RepositorySpec(
            kind=kind,
            location=self._read_location(index, kind, getattr(repo, kind)),
            ref=repo.ref or "HEAD",
            history=repo.history or "full",
            trusted=bool(repo.trusted),
            include=self._read_include(index, kind, repo.include or ()),
        )

    def _read_include(self, index: int, kind: str, words: tuple[str, ...]) -> tuple[str, ...]:
        if words and kind != "path":
            self._fail(index, "is for a path: only a checkout has such files", "repo", "include")
        for word in words:
            self._check_glob(index, word, "repo", "include")
        return words

    def _read_location(self, index: int, kind: str, text: str) -> str:
        if kind == "url":
            fault = _fault_of_url(text)
            if fault:
                self._fail(index, fault, "repo", kind)
            return "" if fault else text
        place = self._resolve(index, text, "repo", kind)
        if place is None:
            return ""
        if kind == "path" and not place.is_dir():
            self._fail(index, f"no directory {str(place)!r}", "repo", kind)
        if kind == "archive" and not place.is_file():
            self._fail(index, f"no file {str(place)!r}", "repo", kind)
        return str(place)

    def _read_image(self, index: int, task: TaskEntry) -> str:
        if task.image is None:
            self._fail(index, _GIVE, "image")
            return ""
        if not isinstance(task.image, BuildEntry):
            return task.image
        build = task.image.build
        folder = self._resolve(index, build, "image", "build")
        recipe = folder and self._resolve(index, f"{build}/Dockerfile", "image", "build")
        if recipe and not recipe.is_file():
            self._fail(index, f"no Dockerfile in {str(folder)!r}", "image", "build")
        return f"{BUILD_PREFIX}{folder}"

    def _read_policy(
        self,
        index: int,
        task: TaskEntry,
        repo: RepositorySpec | None,
        constraints: tuple[ConstraintSpec, ...],
    ) -> str:
        if task.policy is None:
            self._fail(index, _GIVE, "policy")
            return ""
        name = task.policy
        if "/" in name or name.endswith((".yaml", ".yml")):
            place = self._resolve(index, name, "policy")
            if place is None:
                return ""
            name = str(place)
        key = (name, repo.location if repo else "", constraints)
        try:
            if key not in self.merged:
                self.merged[key] = self.policies.merge(
                    name, repository=key[1], constraints=constraints
                )
        except RuleError as error:
            self._fail(index, str(error), "constraints")
            return ""
        except PolicyError as error:
            self._fail(index, str(error), "policy")
            return ""
        return self.merged[key]

    def _read_agent(self, index: int, task: TaskEntry) -> AgentSpec:
        script = ""
        if task.agent is None:
            self._fail(index, _GIVE, "agent")
        elif isinstance(task.agent, ScriptedAgentEntry):
            places = _places(index, ("agent", "script"))
            try:
                script = self.scripts.read(task.agent.script, places)
            except BatchFileError as error:
                self.faults.extend((error, *error.others))
        return AgentSpec(kind=AgentKind.SCRIPTED, script=script)

    def _read_setup(self, index: int, task: TaskEntry, policy: str) -> SetupSpec | None:
        """Return the setup; its network must be one that the merged policy allows."""
        if task.setup is None:
            return None
        setup = SetupSpec(**task.setup.model_dump(exclude_none=True))
        mode = NetworkMode(setup.network)
        if mode is not NetworkMode.NONE and policy:
            allowed = self._list_setup_networks(policy)
            if mode not in allowed:
                names = ", ".join(one.value for one in allowed) or "nothing"
                text = f"policy {task.policy} allows {names} (sandbox.setup_network)"
                self._fail(index, text, "setup", "network")
        return setup

    def _list_setup_networks(self, policy: str) -> tuple[NetworkMode, ...]:
        if policy not in self.networks:
            self.networks[policy] = parse_policy(json.loads(policy)).sandbox.setup_network
        return self.networks[policy]

    def _read_verify(self, index: int, task: TaskEntry) -> VerifySpec | None:
        if task.verify is None:
            if task.expect is None or Outcome.VERIFIED in task.expect:
                self._fail(index, f"{_GIVE}, or expect another outcome than verified", "verify")
            return None
        if task.verify.argv is None:
            self._fail(index, _GIVE, "verify", "argv")
            return None
        return _make_verify(task.verify)

    def _check_globs(self, index: int, task: TaskEntry) -> None:
        verify = task.verify or VerifyEntry()
        lists = [(("verify", name), getattr(verify, name)) for name in ("restore", "forbid_new")]
        for path, patterns in lists:
            for pattern in patterns or ():
                self._check_glob(index, pattern, *path)
        for constraint in task.constraints or ():
            for pattern in constraint.protect:
                self._check_glob(index, pattern, "constraints")

    def _check_glob(self, index: int, pattern: str, *path: str) -> None:
        try:
            parse_glob(pattern)
        except GlobError as error:
            self._fail(index, str(error), *path)


def _places(index: int, path: tuple[str, ...]) -> tuple[FieldPath, ...]:
    """Return where a field may stand: in the task, or in the defaults."""
    return (("tasks", index, *path), ("defaults", *path))


def _fault_of_url(url: str) -> str:
    """Return what is wrong with a URL; empty = nothing."""
    if "\0" in url:
        return "holds a NUL"
    if len(url) > MAX_URL_CHARACTERS:
        return f"is longer than {MAX_URL_CHARACTERS} characters"
    try:
        parts = urlsplit(url)
    except ValueError as error:
        return f"is no URL: {error}"
    web = parts.scheme in ("http", "https")
    if parts.password is not None or (web and parts.username is not None):
        return "holds credentials; leave them to git's own helper"
    return ""


def _make_constraint(entry: ConstraintEntry) -> ConstraintSpec:
    return ConstraintSpec(text=entry.text, protect=entry.protect, forbid=entry.forbid or "")


def _make_budget(entry: BudgetEntry) -> BudgetSpec:
    given = entry.model_dump(exclude_none=True)
    if "cost_usd" in given:
        given["cost_micro_usd"] = given.pop("cost_usd")
    return BudgetSpec(**given)


def _make_verify(entry: VerifyEntry) -> VerifySpec:
    return VerifySpec(**entry.model_dump(exclude_none=True))
