"""Work that no commit holds, as a user, on a real engine: taken when the batch is submitted."""

import json
import os
import subprocess

import pytest
from cli_user import FIX, User, batch_text, reply, script

pytestmark = [pytest.mark.engine, pytest.mark.slow]

POLICY = "repair" if os.geteuid() == 0 else "repair-watched"
LOOK = reply("shell", command="cat README notes; ls -A; git log --format=%s")


@pytest.fixture(scope="module")
def user(tmp_path_factory):
    user = User(tmp_path_factory.mktemp("user"))
    user.make_repository()
    user.write("code/.gitignore", "*.env\n")
    user.git("add", ".gitignore")
    user.git("commit", "--quiet", "-m", "ignore")
    user.write("code/README", "under way\n")
    user.write("code/notes", "untracked\n")
    user.write("code/secret.env", "password\n")
    os.mkfifo(user.folder / "code" / "pipe")
    text = batch_text([("look", script(LOOK, FIX), "verified")], policy=POLICY)
    wanted = "{path: ./code, include: [uncommitted, untracked]}"
    user.write("batch.yaml", text.replace("{path: ./code}", wanted))
    return user


@pytest.fixture(scope="module")
def checked(user):
    return user.run("batch", "check", "batch.yaml", "--json").json


@pytest.fixture(scope="module")
def worked(user, checked):
    """Submit, go on with the work, and only then let a worker begin."""
    submitted = user.run("batch", "submit", "batch.yaml", "--json").json
    before = {name: (user.folder / "code" / name).read_text() for name in ("README", "notes")}
    user.write("code/README", "later\n")
    user.write("code/notes", "later\n")
    said = user.run("worker", "--until-idle")
    assert said.code == 0, said.err
    for name, text in before.items():
        user.write(f"code/{name}", text)
    return submitted


def test_check_tells_what_is_passed_over(user, checked):
    assert checked["tasks"][0]["notes"] == ["pipe: not included: a named pipe"]
    assert checked["tasks"][0]["commit"] != user.git("rev-parse", "HEAD").strip()
    assert "pipe: not included" in user.run("batch", "check", "batch.yaml").text


def test_the_agent_works_on_what_was_there_at_submission(user, worked):
    folder = user.folder / "results" / "small" / worked["batch_id"] / "look"
    items = [json.loads(line) for line in (folder / "rollout.jsonl").read_text().splitlines()]
    texts = [json.dumps(one["payload"]) for one in items if one["kind"] == "tool_result"]

    assert "under way\\nuntracked\\n" in texts[0]
    assert "later" not in texts[0]
    assert "secret.env" not in texts[0]
    assert "Files that were not committed" in texts[0]
    assert "pipe: not included: a named pipe" in (folder / "rollout.jsonl").read_text()


def test_the_patch_applies_to_the_users_files_and_a_branch_holds_both(user, worked):
    folder = user.folder / "results" / "small" / worked["batch_id"] / "look"
    task = json.loads((folder / "result.json").read_text())["task_id"]

    assert user.run("task", "apply", task, "--branch", "fix").code == 0
    assert user.git("show", "fix:answer") == "fixed\n"
    assert user.git("show", "fix~1:README") == "under way\n"
    assert user.git("rev-parse", "fix~2") == user.git("rev-parse", "HEAD")
    subprocess.run(
        ["git", "apply", folder / "changes.patch"], cwd=user.folder / "code", check=True
    )
    assert (user.folder / "code" / "answer").read_text() == "fixed\n"
