"""`forkyard batch …` as a user, on a real engine."""

import json
import os
import subprocess

import pytest
from cli_user import FIX, SPOIL, WRONG, User, batch_text, reply, script

pytestmark = [pytest.mark.engine, pytest.mark.slow]

POLICY = "repair" if os.geteuid() == 0 else "repair-watched"


@pytest.fixture(scope="module")
def user(tmp_path_factory):
    user = User(tmp_path_factory.mktemp("user"))
    user.make_repository()
    tasks = [
        ("good", script(FIX, reply("run_verify")), "verified"),
        ("wrong", script(WRONG), "not_verified"),
        ("cheats", script(SPOIL), "prevented"),
    ]
    user.write("batch.yaml", batch_text(tasks, policy=POLICY))
    return user


@pytest.fixture(scope="module")
def ran(user):
    said = user.run("batch", "run", "batch.yaml", "--json")
    assert said.code == 0, said.err + said.text
    return said.json


@pytest.fixture(scope="module")
def task_ids(ran):
    return ran["task_ids"]


def test_the_batch_ends_as_its_file_expects(ran):
    assert ran["outcomes"] == {"good": "verified", "wrong": "not_verified", "cheats": "prevented"}


def test_each_task_has_its_four_files(user, ran):
    folder = user.folder / "results" / "small" / ran["batch_id"]

    assert ran["results_dir"] == str(folder)
    for name in ran["outcomes"]:
        found = sorted(one.name for one in (folder / name).iterdir())
        assert found == ["changes.patch", "result.json", "rollout.jsonl", "verify.log"]


def test_the_batch_has_its_reports_and_latest(user, ran):
    latest = user.folder / "results" / "small" / "latest"

    assert str(latest.readlink()) == ran["batch_id"]
    assert "verified" in (latest / "report.html").read_text()
    assert json.loads((latest / "report.json").read_text())["outcomes"] == ran["outcomes"]
    assert "<testsuite" in (latest / "junit.xml").read_text()


def test_the_patch_turns_the_base_into_the_result(user, ran):
    clone = user.folder / "clone"
    subprocess.run(["git", "clone", "--quiet", user.folder / "code", clone], check=True)
    patch = user.folder / "results/small/latest/good/changes.patch"

    subprocess.run(["git", "apply", patch], cwd=clone, check=True)

    assert (clone / "answer").read_text() == "fixed\n"


def test_status_counts_by_state_and_outcome(user, ran):
    said = user.run("batch", "status", ran["batch_id"][:6], "--json")

    assert said.json["counts"] == {
        "state": {"completed": 3},
        "outcome": {"not_verified": 1, "prevented": 1, "verified": 1},
    }


def test_report_and_resume_of_an_ended_batch_change_no_finished_task(user, ran):
    folder = user.folder / "results/small/latest/good"
    before = {one.name: (one.stat().st_mtime_ns, one.read_bytes()) for one in folder.iterdir()}

    codes = [user.run("batch", verb, ran["batch_id"]).code for verb in ("report", "resume")]

    assert codes == [0, 0]
    after = {one.name: (one.stat().st_mtime_ns, one.read_bytes()) for one in folder.iterdir()}
    assert after == before


def test_watch_of_an_ended_batch_tells_its_outcomes_and_ends(user, ran):
    said = user.run("batch", "watch", ran["batch_id"])

    assert said.code == 0
    assert "cheats: prevented" in said.err


def test_show_has_the_stable_keys(user, task_ids):
    shown = user.run("task", "show", task_ids["good"], "--json").json

    assert shown["schema"] == 1
    assert shown["changes"] == {"added": 1, "modified": 0, "deleted": 0, "ignored": 0}
    assert shown["verify"]["before"]["passed"] is False
    assert shown["verify"]["after"] == {
        "passed": True, "exit_code": 0, "runs": 1, "flaky": False, "detail": "",
    }  # fmt: skip
    assert shown["snapshot_id"] != shown["base_snapshot_id"]
    assert shown["coverage"]["covered"]


def test_list_holds_every_task_with_its_snapshot(user, task_ids):
    listed = user.run("task", "list", "--json").json["tasks"]

    assert {one["task_id"] for one in listed} >= set(task_ids.values())
    assert all(one["snapshot_id"] for one in listed)
    assert all("coverage" not in one for one in listed)


def test_the_log_says_what_was_refused(user, task_ids):
    said = user.run("task", "log", task_ids["cheats"], "--json").json

    results = [one["item"]["payload"] for one in said["items"] if one["kind"] == "tool_result"]
    assert any(one["reason"] == "changes_refused" for one in results)
    assert [one["seq"] for one in said["items"]] == list(range(1, len(said["items"]) + 1))


def test_the_log_reads_as_text(user, task_ids):
    said = user.run("task", "log", task_ids["good"])

    assert "→ write_file" in said.text


def test_diff_prints_the_patch_itself(user, task_ids):
    patch = (user.folder / "results/small/latest/good/changes.patch").read_bytes()

    assert user.run("task", "diff", task_ids["good"]).out == patch


def test_apply_makes_a_branch_and_leaves_the_checkout_alone(user, task_ids):
    said = user.run("task", "apply", task_ids["good"], "--branch", "fix", "--json")

    assert said.code == 0, said.err
    assert user.git("show", "fix:answer") == "fixed\n"
    assert user.git("status", "--porcelain") == ""
    assert user.git("rev-parse", "fix").strip() == said.json["commit"]


def test_applying_to_a_branch_that_exists_changes_nothing(user, task_ids):
    before = user.git("rev-parse", "main")

    said = user.run("task", "apply", task_ids["good"], "--branch", "main")

    assert said.code == 4
    assert "name another" in said.err
    assert user.git("rev-parse", "main") == before


def test_the_exported_rollout_is_the_one_in_the_results(user, task_ids):
    kept = (user.folder / "results/small/latest/good/rollout.jsonl").read_bytes()

    assert user.run("rollout", "export", task_ids["good"]).out == kept


def test_every_request_can_be_rebuilt(user, task_ids):
    said = user.run("rollout", "verify", task_ids["good"], "--json")

    proof = said.json
    assert (said.code, proof["ok"], proof["anchored"], proof["problems"]) == (0, True, True, [])
    assert proof["requests_rebuilt"] == proof["requests_sent"] > 0


def test_cancelling_an_ended_task_is_a_conflict(user, task_ids):
    assert user.run("task", "cancel", task_ids["good"]).code == 4


def test_check_does_everything_short_of_starting(user, ran):
    said = user.run("batch", "check", "batch.yaml", "--json")

    assert said.code == 0
    assert said.json["worst_cost_micro_usd"] == 0
    assert all(one["image_id"] and len(one["commit"]) == 40 for one in said.json["tasks"])


def test_an_unknown_id_is_exit_code_five(user, ran):
    said = user.run("task", "show", "tzzzz", "--json")

    assert (said.code, said.json["error"]["code"]) == (5, "not_found")


def test_a_prefix_of_several_ids_is_wrong_usage(user, ran):
    assert user.run("task", "show", "t").code == 2


def test_a_missing_image_is_told_before_anything_is_stored(user, ran):
    user.write("missing.yaml", batch_text([("a", script(FIX), "verified")], image="nowhere:1"))
    before = len(user.run("task", "list", "--json").json["tasks"])

    said = user.run("batch", "run", "missing.yaml")

    assert said.code == 3
    assert "nothing is pulled silently" in said.err
    assert len(user.run("task", "list", "--json").json["tasks"]) == before


def test_a_wrong_file_is_named_with_line_and_field(user, ran):
    user.write("wrong.yaml", batch_text([("a", script(FIX), "fine")]))

    said = user.run("batch", "submit", "wrong.yaml")

    assert said.code == 2
    assert "wrong.yaml:14: tasks[0].expect[0]: must be one of" in said.err


def test_a_batch_is_submitted_cancelled_and_reported(user, ran):
    submitted = user.run("batch", "submit", "batch.yaml", "--json").json
    cancelled = user.run("batch", "cancel", submitted["batch_id"], "--json")
    report = user.run("batch", "report", submitted["batch_id"], "--json")

    assert submitted["counts"]["state"] == {"queued": 3}
    assert cancelled.json["cancelled_tasks"] == 3
    assert report.code == 1
    assert set(report.json["outcomes"].values()) == {"cancelled"}


def test_a_worker_does_what_was_submitted(user, ran):
    submitted = user.run("batch", "submit", "batch.yaml", "--json").json

    worked = user.run("worker", "--until-idle")

    assert worked.code == 0
    assert user.run("batch", "report", submitted["batch_id"]).code == 0


def test_one_task_runs_without_a_batch_file(user, ran):
    user.write("fix.json", script(FIX))

    said = user.run(
        "task", "run", "--repo", "code", "--goal", "Write it.", "--script", "fix.json",
        "--verify", "sh tests/check.sh", "--policy", POLICY, "--protect", "tests/**", "--json",
    )  # fmt: skip

    assert (said.code, said.json["outcome"]) == (0, "verified")


def test_an_outcome_that_was_not_expected_is_exit_code_one(user, ran):
    user.write("hope.yaml", batch_text([("a", script(WRONG), "verified")], policy=POLICY))

    assert user.run("batch", "run", "hope.yaml").code == 1


def test_one_bad_task_never_harms_the_others(user, ran):
    text = batch_text(
        [("bad", script(FIX), "verified"), ("good", script(FIX), "verified")], policy=POLICY
    )
    text = text.replace("  - id: bad\n", "  - id: bad\n    repo: {path: ./code, ref: nowhere}\n")
    user.write("mixed.yaml", text)

    said = user.run("batch", "run", "mixed.yaml", "--json")

    assert said.code == 1
    assert said.json["outcomes"]["good"] == "verified"
    assert said.json["outcomes"]["bad"] != "verified"
