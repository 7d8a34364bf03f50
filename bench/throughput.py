"""Twenty trivial tasks at once, against what the engine alone does at that parallelism.

The engine's own rate: create, start and forced removal of a hardened container by 20 threads. Our
rate times our containers per task, divided by that, is the promise.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
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

PROMISE = 0.7
TASKS = 20

POLICY = """\
version: 1
name: small
sandbox:
  network: {mode: none}
  limits: {memory_mib: 256, cpus: 0.25, disk_mib: 256}
"""


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--pairs", type=int, default=3)
    chosen = options.parse_args()
    shares = []
    with tempfile.TemporaryDirectory() as folder, open_bench() as app:
        policy = Path(folder) / "small.yaml"
        policy.write_text(POLICY)
        repository = make_repository(Path(folder))
        shape = Shape(tasks=TASKS, parallel=TASKS, commands=("true",), policy=str(policy))
        spec = make_batch(shape, repository, "python")
        image = app.services.host.resolve_image("python")
        body = make_bare_body(image, Path(folder) / "bare", policy=str(policy))
        for pair in range(chosen.pairs):
            with count_operations(app) as counts:
                seconds = run_batch(app, spec, parallel=TASKS)
            tasks_per_second = TASKS / seconds
            per_task = counts["create"] / TASKS
            engine = measure_engine(body, containers=counts["create"])
            shares.append(tasks_per_second / (engine / per_task))
            show(
                "pair",
                number=pair,
                tasks_per_second=round(tasks_per_second, 2),
                containers_per_task=per_task,
                execs=counts["exec_create"],
                engine_containers_per_second=round(engine, 2),
            )
    show(
        "throughput",
        ratio=round(statistics.median(shares), 3),
        spread=[round(min(shares), 3), round(max(shares), 3)],
        promise=f">= {PROMISE}",
        policy="256 MiB, 0.25 CPU",
        tasks=TASKS,
    )


def measure_engine(body: dict[str, object], *, containers: int) -> float:
    """Return containers per second of the engine alone, 20 threads."""
    client = docker.from_env(max_pool_size=TASKS)

    def make_one(_number: int) -> None:
        container = client.api.create_container_from_config(body)
        client.api.start(container["Id"])
        client.api.remove_container(container["Id"], force=True, v=True)

    started = time.monotonic()
    with ThreadPoolExecutor(TASKS) as pool:
        list(pool.map(make_one, range(containers)))
    seconds = time.monotonic() - started
    client.close()
    return containers / seconds


if __name__ == "__main__":
    main()
