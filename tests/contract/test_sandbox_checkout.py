"""Changes written to a user's checkout: one contract for the double and the real one."""

from dataclasses import dataclass
from pathlib import Path

import pytest
from git_builders import GitBench
from host_setting import make_memory_setting, make_repository

from sandbox import (
    CheckoutConflictError,
    Command,
    Source,
    SourceError,
    SourceKind,
)
from sandbox.testing_files import MemoryEntry

PATH = "README.md"
NEW = b"new\n"


@dataclass
class MemoryUser:
    """A task on the double, and the files of its user's checkout."""

    root: Path

    def __post_init__(self):
        self.setting = make_memory_setting(self.root)
        self.files = self.setting.host.repositories[str(self.root)].files

    def change(self):
        with self.setting.host.open_sandbox(self.setting.spec()) as sandbox:
            sandbox.run(Command(argv=("tee", PATH), stdin=NEW, timeout_seconds=9))
            return sandbox.take_snapshot().snapshot

    def apply(self, snapshot, place=None):
        return self.setting.host.apply_to_checkout(snapshot, str(place or self.root))

    def read(self):
        return self.files[f"workspace/{PATH}"].data

    def write(self, data):
        self.files[f"workspace/{PATH}"] = MemoryEntry(data)


@dataclass
class GitUser:
    """A task on real files, and a real checkout."""

    root: Path

    def __post_init__(self):
        self.bench = GitBench(self.root)
        self.place = self.root / "code"
        make_repository(self.place)

    def change(self):
        source = Source(kind=SourceKind.PATH, location=str(self.place))
        imported = self.bench.repositories.import_source(source)
        start = self.bench.workspaces.start_snapshot(imported, task_id="t1")
        volume = self.bench.volume()
        with self.bench.workspaces.open_workspace(volume, task_id="t1", start=start) as opened:
            (opened.paths.workspace / PATH).write_bytes(NEW)
            return opened.take_snapshot().snapshot

    def apply(self, snapshot, place=None):
        return self.bench.workspaces.apply_to_checkout(snapshot, str(place or self.place))

    def read(self):
        return (self.place / PATH).read_bytes()

    def write(self, data):
        (self.place / PATH).write_bytes(data)


@pytest.fixture(params=[MemoryUser, GitUser])
def user(request, tmp_path):
    return request.param(tmp_path)


def test_a_change_reaches_the_checkout_and_its_path_is_told(user):
    assert user.apply(user.change()) == (PATH.encode(),)
    assert user.read() == NEW


def test_an_edit_of_the_user_refuses_and_stays(user):
    snapshot = user.change()
    user.write(b"mine\n")

    with pytest.raises(CheckoutConflictError) as refused:
        user.apply(snapshot)

    assert [path for path, _ in refused.value.conflicts] == [PATH.encode()]
    assert user.read() == b"mine\n"


def test_applying_twice_is_refused(user):
    snapshot = user.change()
    user.apply(snapshot)

    with pytest.raises(CheckoutConflictError):
        user.apply(snapshot)


def test_a_place_that_is_no_repository_is_refused(user):
    with pytest.raises(SourceError):
        user.apply(user.change(), user.root / "nothing")
