"""A repository of 100,000 files: import, start, one call, snapshots, roll-back and patch.

Prints for each step its seconds and, at the end, bytes on disk and the peak of this process's
memory. Files are small, 100 to a folder.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from memory import watch_peak
from workbench import open_bench, show

from policies import load_policy
from runner.bootstrap import App
from sandbox import Command, Sandbox, SandboxSpec, Snapshot, Source, SourceKind

FOLDER_FILES = 100


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--files", type=int, default=100_000)
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory() as folder, open_bench() as app:
        repository = Path(folder) / "repository"
        with timed("commit by git itself"):
            make_large_repository(repository, files=chosen.files)
        with timed("checkout by git itself"):
            checkout_by_git(repository)
        with watch_peak() as peak:
            measure(app, repository, files=chosen.files)
        show("memory", peak_mib=peak[0])
        repos = app.settings.home / "repos"
        show("disk", repositories_mib=sum_mib(repos), users_mib=sum_mib(repository / ".git"))


def measure(app: App, repository: Path, *, files: int) -> None:
    host = app.services.host
    source = Source(kind=SourceKind.PATH, location=str(repository))
    with timed("import"):
        imported = host.import_source(source)
    (repository / "d1" / "f1").write_text("under way\n")
    included = replace(source, include=("uncommitted", "untracked"))
    with timed("import with work under way"):
        host.import_source(included)
    with timed("start snapshot, made"):
        start = host.start_snapshot(imported, task_id="t0")
    with timed("start snapshot, found"):
        host.start_snapshot(imported, task_id="t1")
    before = time.monotonic()
    with host.open_sandbox(make_spec(app, start, files=files)) as sandbox:
        report("start: volume, files, container", before)
        last = work(sandbox, start)
        before = time.monotonic()
    report("end", before)
    with timed("patch"):
        patch = host.make_patch(last)
    show("patch", bytes=len(patch))


def work(sandbox: Sandbox, start: Snapshot) -> Snapshot:
    with timed("git status inside"):
        run(sandbox, "git status --porcelain")
    with timed("snapshot, nothing changed"):
        sandbox.take_snapshot()
    run(sandbox, "echo changed >> d1/f1; echo new > d2/new; rm d3/f3")
    with timed("snapshot, three files changed"):
        last = sandbox.take_snapshot().snapshot
    run(sandbox, "for d in d*; do echo more >> $d/f0; done")
    with timed("snapshot, a file in each folder changed"):
        sandbox.take_snapshot()
    with timed("roll-back"):
        sandbox.restore(start)
    with timed("roll-back, to three files changed"):
        sandbox.restore(last)
    return last


def run(sandbox: Sandbox, script: str) -> None:
    result = sandbox.run(Command(argv=("sh", "-c", script), timeout_seconds=300))
    if result.exit_code != 0:
        raise RuntimeError(f"{script}: {result.ending}: {result.stderr.head!r}")


def make_spec(app: App, start: Snapshot, *, files: int) -> SandboxSpec:
    given = load_policy("repair", folder=None).sandbox
    limits = replace(given.limits, inodes=2 * files + 10_000, disk_mib=files // 20 + 1024)
    return SandboxSpec(
        task_id="tlarge",
        attempt=1,
        image=app.services.host.resolve_image("python"),
        start=start,
        limits=limits,
        network=given.network,
    )


def make_large_repository(repository: Path, *, files: int) -> None:
    for number in range(files):
        folder = repository / f"d{number // FOLDER_FILES}"
        if number % FOLDER_FILES == 0:
            folder.mkdir(parents=True)
        text = f"# file {number}\n" + f"VALUE_{number} = {number}\n" * 20
        (folder / f"f{number % FOLDER_FILES}").write_text(text)
    git = ("git", "-C", str(repository), "-c", "user.name=bench", "-c", "user.email=bench@invalid")
    for arguments in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-qm", "base"]):
        subprocess.run([*git, *arguments], check=True)


def checkout_by_git(repository: Path) -> None:
    tree = repository.with_name("by-git")
    git = ("git", "-C", str(repository), "worktree")
    subprocess.run([*git, "add", "-q", "--detach", str(tree)], check=True)
    subprocess.run([*git, "remove", "--force", str(tree)], check=True)


@contextmanager
def timed(name: str) -> Iterator[None]:
    started = time.monotonic()
    yield
    report(name, started)


def report(name: str, started: float) -> None:
    show("step", what=name, seconds=round(time.monotonic() - started, 3))


def sum_mib(folder: Path) -> int:
    return sum(path.lstat().st_blocks for path in folder.rglob("*")) * 512 // 2**20


if __name__ == "__main__":
    main()
