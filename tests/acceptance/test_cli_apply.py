"""`forkyard task apply` and what it warns of, as a user, on a real engine."""

import os

import pytest
from cli_user import FIX, User, batch_text, reply, script

pytestmark = [pytest.mark.engine, pytest.mark.slow]

POLICY = "repair" if os.geteuid() == 0 else "repair-watched"
PLANT = reply("write_file", path=".envrc", content="touch canary\n")


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    user = User(tmp_path_factory.mktemp("user"))
    user.make_repository()
    tasks = [("good", script(FIX), "verified"), ("plants", script(FIX, PLANT), "verified")]
    user.write("batch.yaml", batch_text(tasks, policy=POLICY))
    said = user.run("batch", "run", "batch.yaml", "--json")
    assert said.code == 0, said.err + said.text
    return user, said.json["task_ids"]


@pytest.fixture
def user(ran):
    user, _ = ran
    yield user
    user.git("reset", "--quiet", "--hard")
    user.git("clean", "--quiet", "-dfx")


@pytest.fixture
def good(ran):
    return ran[1]["good"]


@pytest.fixture
def plants(ran):
    return ran[1]["plants"]


def test_the_changes_appear_in_the_checkout_and_nothing_is_staged(user, good):
    said = user.run("task", "apply", good, "--checkout")

    assert said.code == 0, said.err
    assert f"wrote 1 path into {user.folder / 'code'}" in said.text
    assert user.git("status", "--porcelain") == "?? answer\n"
    assert (user.folder / "code/answer").read_text() == "fixed\n"


def test_the_answer_for_scripts_names_checkout_paths_and_flags(user, good):
    said = user.run("task", "apply", good, "--checkout", "--json")

    assert said.json == {
        "schema": 1,
        "task_id": good,
        "checkout": str(user.folder / "code"),
        "paths": ["answer"],
        "flagged": [],
    }


def test_a_file_of_the_users_in_the_way_is_a_conflict_and_stays(user, good):
    user.write("code/answer", "mine\n")

    said = user.run("task", "apply", good, "--checkout", "--json")

    assert said.code == 4
    assert said.json["error"]["code"] == "checkout_conflict"
    assert "'answer'" in said.json["error"]["message"]
    assert (user.folder / "code/answer").read_text() == "mine\n"


def test_flagged_paths_are_refused_until_they_are_accepted(user, plants):
    refused = user.run("task", "apply", plants, "--checkout", "--json")
    before = user.git("status", "--porcelain")
    accepted = user.run("task", "apply", plants, "--checkout", "--accept-flagged")

    assert (refused.code, refused.json["error"]["code"], before) == (5, "flagged", "")
    assert accepted.code == 0, accepted.err
    assert "flagged:   .envrc (shell)" in accepted.text
    assert user.git("status", "--porcelain") == "?? .envrc\n?? answer\n"


def test_a_branch_is_made_and_tells_what_is_flagged(user, plants):
    said = user.run("task", "apply", plants, "--branch", "planted", "--json")

    assert said.code == 0, said.err
    assert [one["path"] for one in said.json["flagged"]] == [".envrc"]
    assert user.git("status", "--porcelain") == ""


def test_show_diff_and_results_tell_what_is_flagged(user, plants):
    shown = user.run("task", "show", plants)
    diff = user.run("task", "diff", plants)
    results = user.folder / "results/small/latest"

    assert "flagged:   .envrc (shell)" in shown.text
    assert "flagged:   .envrc (shell)" in diff.err
    assert diff.out == (results / "plants/changes.patch").read_bytes()
    assert '"tool": "shell"' in (results / "plants/result.json").read_text()
    assert "Look twice" in (results / "report.html").read_text()


@pytest.mark.parametrize("how", [[], ["--branch", "b", "--checkout"], ["--branch=-x"]])
def test_what_makes_no_sense_is_wrong_usage(user, good, how):
    assert user.run("task", "apply", good, *how).code == 2
