"""Turns a batch file into a stored batch: read whole, images pinned by id, then stored at once."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from policies import parse_policy
from runner.application.prepare_run import make_source, pin_source
from runner.application.submit_batch import submit_batch
from runner.bootstrap import App, open_images
from runner.domain.records import Batch
from runner.domain.task import BUILD_PREFIX, AgentKind, BatchSpec, TaskSpec
from runner.entrypoints.answers import BatchChecked, CheckedTask
from runner.errors import RunnerError
from sandbox import SandboxError

Say = Callable[[str], None]
"""Receives a line about long work."""


def store_batch(app: App, spec: BatchSpec, *, results: Path, say: Say) -> Batch:
    """Pin the images and store the batch.

    Nothing is stored when an image is missing or the folder of results cannot be written.

    Raises:
        ResultsError: the folder of results cannot be written.
        ImageMissingError: an image is not on the engine, and nothing is pulled.
        EngineError: an image that the batch builds cannot be built.
    """
    app.results.probe(str(results.absolute()))
    pinned = pin_sources(app, pin_images(app, spec, say=say))
    return submit_batch(pinned, app.services, results=results.absolute())


def pin_images(app: App, spec: BatchSpec, *, say: Say) -> BatchSpec:
    """Return the batch with image ids in place of names; `{build: DIR}` is built where it is new.

    Raises:
        ImageMissingError, EngineError: as store_batch.
    """
    ids: dict[str, str] = {}
    with ExitStack() as stack:
        for image in dict.fromkeys(task.image for task in spec.tasks):
            if image.startswith(BUILD_PREFIX):
                builder = stack.enter_context(open_images(app.settings))
                say(f"building {image.removeprefix(BUILD_PREFIX)}")
                status = builder.build(image)
                ids[image] = status.image_id
            else:
                ids[image] = app.services.host.resolve_image(image)
    tasks = tuple(task.model_copy(update={"image": ids[task.image]}) for task in spec.tasks)
    return spec.model_copy(update={"tasks": tasks})


def pin_sources(app: App, spec: BatchSpec) -> BatchSpec:
    """Return the batch with the repositories of this host imported as they are now.

    Raises:
        RepositoryError, DiskFullError: our own repositories cannot be written.
    """
    pinned = {repo: pin_source(repo, app.services.host) for repo in {t.repo for t in spec.tasks}}
    tasks = tuple(task.model_copy(update={"repo": pinned[task.repo]}) for task in spec.tasks)
    return spec.model_copy(update={"tasks": tasks})


def check_batch(app: App, spec: BatchSpec) -> BatchChecked:
    """Do everything short of starting: images, sources, room on this host, worst-case cost."""
    problems: list[str] = []
    checked = tuple(_check_task(app, task, problems) for task in spec.tasks)
    return BatchChecked(
        name=spec.name,
        tasks=checked,
        problems=tuple(dict.fromkeys(problems)),
        worst_cost_micro_usd=worst_cost(spec),
    )


def worst_cost(spec: BatchSpec) -> int | None:
    """Return the most that a batch can cost in micro-USD; None when nothing limits it."""
    tries = 1 + sum(spec.retries.values())
    limits = [
        0 if task.agent.kind is AgentKind.SCRIPTED else task.budget.cost_micro_usd or None
        for task in spec.tasks
    ]
    known = [limit for limit in limits if limit is not None]
    total = sum(known) * tries if len(known) == len(limits) else None
    caps = [total] if total is not None else []
    if spec.budget.cost_micro_usd:
        caps.append(spec.budget.cost_micro_usd)
    return min(caps, default=None)


def _check_task(app: App, task: TaskSpec, problems: list[str]) -> CheckedTask:
    limits = parse_policy(json.loads(task.policy)).sandbox.limits
    image_id = commit = ""
    notes: tuple[str, ...] = ()
    try:
        if not task.image.startswith(BUILD_PREFIX):
            image_id = app.services.host.resolve_image(task.image)
        imported = app.services.host.import_source(make_source(task.repo))
        commit, notes = imported.commit, imported.notes
    except (RunnerError, SandboxError) as error:
        problems.append(f"{task.name}: {error}")
    if not app.capacity.can_ever_hold(limits):
        problems.append(
            f"{task.name}: its policy asks for {limits.memory_mib} MiB, more than this host has"
        )
    return CheckedTask(
        name=task.name,
        image_id=image_id,
        commit=commit,
        notes=notes,
        memory_mib=limits.memory_mib,
        cpu_thousandths=limits.cpu_thousandths,
        setup=task.setup,
    )
