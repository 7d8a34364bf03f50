"""The runner's own memory: with 2 GB of output from one task, and over many finished tasks."""

from __future__ import annotations

import argparse
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from workbench import Shape, make_batch, make_repository, open_bench, run_batch, show

MOST_MIB = 200
GIGABYTES = 2


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--tasks", type=int, default=60, help="finished tasks to look at")
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory() as folder, open_bench() as app:
        repository = make_repository(Path(folder))
        loud = Shape(tasks=1, parallel=1, commands=(f"head -c {GIGABYTES}000000000 /dev/zero",))
        with watch_peak() as peak:
            run_batch(app, make_batch(loud, repository, "python"), parallel=1)
        show("output", bytes=GIGABYTES * 10**9, peak_mib=peak[0], promise=f"<= {MOST_MIB}")
        quiet = Shape(tasks=chosen.tasks // 2, parallel=4, commands=("true",))
        spec = make_batch(quiet, repository, "python")
        run_batch(app, spec, parallel=4)
        half = read_mib()
        run_batch(app, spec, parallel=4)
        show("finished", tasks=[chosen.tasks // 2, chosen.tasks], mib=[half, read_mib()])


@contextmanager
def watch_peak() -> Iterator[list[int]]:
    """Sample this process's resident memory; the list's one number is the peak in MiB."""
    peak = [read_mib()]
    done = threading.Event()

    def look() -> None:
        while not done.wait(0.02):
            peak[0] = max(peak[0], read_mib())

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield peak
    finally:
        done.set()
        thread.join()


def read_mib() -> int:
    """Return this process's resident memory in MiB."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) // 1024
    raise RuntimeError("no VmRSS in /proc/self/status")


if __name__ == "__main__":
    main()
