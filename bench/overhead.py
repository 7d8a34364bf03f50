"""Per task, everything but the commands themselves, against the same bare operations.

Bare means: `git worktree add` and `remove`, create, start and forced removal of a container of
the same specification on plain folders, and exec create, start and inspect, in the numbers that
the engine counted for our tasks. The commands are `true`, so that what is left is all overhead.
Runs alternate.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import tempfile
import time
from collections import Counter
from pathlib import Path

import docker
from workbench import (
    Shape,
    count_operations,
    make_bare_body,
    make_batch,
    make_repository,
    open_bench,
    run_batch,
    show,
)

PROMISE = 1.3
MOST_CONTAINERS = 3


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--pairs", type=int, default=7)
    options.add_argument("--tasks", type=int, default=2, help="tasks of one of our runs")
    options.add_argument("--calls", type=int, default=5, help="shell calls of one task")
    chosen = options.parse_args()
    ratios = []
    with tempfile.TemporaryDirectory() as folder, open_bench() as app:
        repository = make_repository(Path(folder))
        shape = Shape(tasks=chosen.tasks, parallel=1, commands=("true",) * chosen.calls)
        spec = make_batch(shape, repository, "python")
        run_batch(app, spec, parallel=1)  # imports the repository once, as a user's second run
        image = app.services.host.resolve_image("python")
        body = make_bare_body(image, Path(folder) / "bare")
        for pair in range(chosen.pairs):
            with count_operations(app) as counts:
                ours = run_batch(app, spec, parallel=1)
            bare = run_bare(counts, repository, body, worktrees=chosen.tasks)
            ratios.append(ours / bare)
            show("pair", number=pair, ours_seconds=round(ours, 3), bare_seconds=round(bare, 3))
    show(
        "overhead",
        ratio=round(statistics.median(ratios), 3),
        spread=[round(min(ratios), 3), round(max(ratios), 3)],
        promise=f"<= {PROMISE}",
        containers_per_task=counts["create"] / chosen.tasks,
        most_containers=MOST_CONTAINERS,
        containers=counts["create"],
        execs=counts["exec_create"],
        worktrees=chosen.tasks,
    )


def run_bare(
    counts: Counter[str], repository: Path, body: dict[str, object], *, worktrees: int
) -> float:
    """Do the same operations by hand and return the seconds they took."""
    client = docker.from_env()
    started = time.monotonic()
    for number in range(worktrees):
        tree = repository.parent / f"bare-{number}"
        git = ("git", "-C", str(repository), "worktree")
        subprocess.run([*git, "add", "-q", "--detach", str(tree)], check=True)
        subprocess.run([*git, "remove", "--force", str(tree)], check=True)
    execs_each, more = divmod(counts["exec_create"], max(counts["create"], 1))
    for number in range(counts["create"]):
        container = client.api.create_container_from_config(body)
        client.api.start(container["Id"])
        for _ in range(execs_each + (number < more)):
            run = client.api.exec_create(container["Id"], ["true"])
            client.api.exec_start(run["Id"])
            client.api.exec_inspect(run["Id"])
        client.api.remove_container(container["Id"], force=True, v=True)
    seconds = time.monotonic() - started
    client.close()
    return seconds


if __name__ == "__main__":
    main()
