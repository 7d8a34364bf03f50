"""What a task changed, brought to its user on doubles; and which of it is flagged."""

import pytest
from run_builders import FILES, FINISH, FIX, Yard, shell
from sandbox_builders import PLAIN_SNAPSHOT

from policies import Change, ChangeKind, Changes, EntryKind
from runner.application.apply_task import apply_to_branch, apply_to_checkout
from runner.application.describe_task import describe_task
from runner.application.flagged_paths import list_flagged
from runner.domain.task import RepositorySpec
from runner.errors import ConflictError, FlaggedPathsError, UsageError
from sandbox import CheckoutConflictError
from sandbox.testing_files import MemoryEntry


def make_yard(*commands, files=FILES, **spec):
    yard = Yard([shell("; ".join(commands))], [FINISH], files=files, **spec)
    yard.work()
    return yard


def repository(yard):
    return yard.host.repositories["/src"]


def flagged(yard):
    found = describe_task(yard.task.task_id, yard.services).files
    return [one.path for one in found.flagged]


def apply(yard, *, accept_flagged=False):
    return apply_to_checkout(yard.task.task_id, yard.services, accept_flagged=accept_flagged)


def test_a_repair_reaches_the_checkout():
    yard = make_yard(FIX)

    written = apply(yard)

    assert (written.location, written.paths, written.flagged) == ("/src", (b"app.py",), ())
    assert repository(yard).files["workspace/app.py"].data == b"fixed\n"
    assert repository(yard).branches == {}


def test_the_users_own_edit_is_a_conflict():
    yard = make_yard(FIX)
    repository(yard).files["workspace/app.py"] = MemoryEntry(b"mine\n")

    with pytest.raises(CheckoutConflictError, match=r"app\.py"):
        apply(yard)


def test_flagged_paths_refuse_until_they_are_accepted():
    yard = make_yard(FIX, "echo x > .envrc")

    with pytest.raises(FlaggedPathsError, match="accept-flagged") as refused:
        apply(yard)

    assert [one.path for one in refused.value.flagged] == [b".envrc"]
    assert "workspace/.envrc" not in repository(yard).files
    assert apply(yard, accept_flagged=True).paths == (b".envrc", b"app.py")


def test_a_branch_is_made_and_tells_what_is_flagged():
    yard = make_yard(FIX, "echo x > conftest.py")

    made = apply_to_branch(yard.task.task_id, yard.services, branch="fix")

    assert repository(yard).branches == {"fix": made.commit}
    assert [one.path for one in made.flagged] == [b"conftest.py"]


@pytest.mark.parametrize(
    "how", [apply, lambda y: apply_to_branch(y.task.task_id, y.services, branch="b")]
)
def test_where_only_ignored_files_changed_there_is_nothing_to_apply(how):
    yard = make_yard("echo x > trace.log", files={**FILES, ".gitignore": b"*.log\n"})

    with pytest.raises(ConflictError, match="has changed nothing"):
        how(yard)


def test_a_task_that_came_from_elsewhere_has_no_checkout():
    yard = Yard([FINISH], repo=RepositorySpec(kind="url", location="https://example.org/a.git"))

    with pytest.raises(UsageError, match=r"changes\.patch"):
        apply(yard)


@pytest.mark.parametrize(
    ("after", "wanted"),
    [
        ('{"version": "2", "scripts": {"test": "a"}}', []),
        ('{"version": "1", "scripts": {"test": "b"}}', [b"package.json"]),
        ("{", [b"package.json"]),
    ],
)
def test_a_package_json_is_flagged_only_when_its_scripts_changed(after, wanted):
    files = {**FILES, "package.json": b'{"version": "1", "scripts": {"test": "a"}}'}
    yard = make_yard(f"echo '{after}' > package.json", files=files)

    assert flagged(yard) == wanted


def test_an_enormous_package_json_is_flagged_unread():
    change = Change(
        path=b"package.json", kind=ChangeKind.MODIFIED, entry=EntryKind.FILE, size_bytes=10**9
    )
    yard = Yard([FINISH])
    missing = PLAIN_SNAPSHOT

    found = list_flagged(missing, missing, Changes((change,)), host=yard.host)

    assert [one.path for one in found] == [b"package.json"]


def test_a_new_or_deleted_package_json_is_flagged():
    assert flagged(make_yard("echo {} > package.json")) == [b"package.json"]
    files = {**FILES, "package.json": b"{}"}
    assert flagged(make_yard("rm package.json", files=files)) == [b"package.json"]


def test_a_link_out_of_the_repository_is_flagged_and_an_ignored_one_is_not():
    files = {**FILES, ".gitignore": b"cache\n"}

    yard = make_yard("ln -s /etc/shadow out.txt", "ln -s /etc cache", files=files)

    assert flagged(yard) == [b"out.txt"]
