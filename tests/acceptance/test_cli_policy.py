"""`forkyard policy …` as a user; no engine is needed."""

import pytest
from cli_user import User


@pytest.fixture
def user(tmp_path):
    return User(tmp_path)


def test_the_built_in_policy_loads(user):
    said = user.run("policy", "check", "repair", "--json")

    assert said.code == 0
    assert said.json["policy"]["name"] == "repair"


def test_a_policy_with_a_typo_is_refused_with_file_line_and_field(user):
    user.write("mine.yaml", "version: 1\nname: mine\ntoolz: [shell]\n")

    said = user.run("policy", "check", "./mine.yaml")

    assert said.code == 2
    assert "mine.yaml:3: toolz:" in said.err


def test_explain_says_decision_and_rule(user):
    user.write(
        "mine.yaml",
        """\
        version: 1
        name: mine
        tools: [write_file, shell]
        changes:
          - {id: keep, match: {paths: ["deploy/**"]}, then: deny, because: It is live.}
        """,
    )

    changed = user.run(
        "policy", "explain", "./mine.yaml", "--change", "modified", "--path", "deploy/a", "--json"
    ).json
    called = user.run("policy", "explain", "./mine.yaml", "--tool", "search", "--json").json

    assert (changed["decision"], changed["rule"]) == ("deny", "keep")
    assert "It is live." in changed["reasons"]
    assert (called["decision"], called["rule"]) == ("deny", "tools")


def test_what_comes_later_is_refused_by_name(user):
    user.write("mine.yaml", "version: 1\nname: mine\nreviewer: {provider: x, model: y}\n")

    said = user.run("policy", "check", "./mine.yaml", "--json")

    assert said.code == 2
    assert "reviewer" in said.json["error"]["message"]


@pytest.mark.parametrize("path", ["docs/a.md", "/workspace/docs/a.md", "x/../docs/a.md"])
def test_explain_judges_the_path_that_a_run_would_judge(user, path):
    user.write(
        "mine.yaml",
        """\
        version: 1
        name: mine
        tools: [write_file]
        commands:
          - id: keep
            match: {tool: write_file, paths: ["docs/**"]}
            then: deny
            because: No.
        """,
    )

    said = user.run(
        "policy", "explain", "./mine.yaml", "--tool", "write_file", "--path", path, "--json"
    )

    assert (said.json["decision"], said.json["rule"]) == ("deny", "keep")
