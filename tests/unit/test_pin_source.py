"""A repository is what it was when its batch was submitted."""

from __future__ import annotations

from run_builders import FILES, FINISH, FIX, Yard, shell

from runner.application.prepare_run import pin_source
from runner.domain.items import Event
from runner.domain.outcome import Outcome
from runner.domain.task import ImportedSpec, RepositorySpec
from sandbox.testing import MemorySandboxHost

HERE = RepositorySpec(kind="path", location="/src")


def test_a_repository_of_this_host_is_pinned_as_it_is_now() -> None:
    host = MemorySandboxHost({"/src": {"a": b"1"}}, images=[])
    pinned = pin_source(HERE, host)

    again = pin_source(pinned, MemorySandboxHost({"/src": {"a": b"2"}}, images=[]))

    assert pinned.imported is not None
    assert again == pinned


def test_what_cannot_be_imported_yet_is_left_to_the_tasks_own_run() -> None:
    host = MemorySandboxHost({}, images=[])

    assert pin_source(HERE, host) == HERE
    url = RepositorySpec(kind="url", location="https://example.org/a.git")
    assert pin_source(url, host) == url


def test_a_pinned_task_starts_without_its_repository_and_tells_the_notes() -> None:
    first = MemorySandboxHost({"/src": FILES}, images=[])
    found = pin_source(HERE, first).imported
    assert found is not None
    imported = ImportedSpec(
        repository_id=found.repository_id, commit=found.commit, notes=("sub: a submodule",)
    )
    gone = RepositorySpec(kind="path", location="/gone", imported=imported)
    yard = Yard([shell(FIX)], [FINISH], repo=gone)
    yard.host.store.bases.update(first.store.bases)

    run = yard.work()

    assert run.outcome is Outcome.VERIFIED
    notes = [one.payload for one in yard.items if isinstance(one.payload, Event)]
    assert [one.detail for one in notes if one.name == "source.noted"] == ["sub: a submodule"]
