"""Ignore rules of a base that is not ours: they are read by git on the host."""

import pytest
from git_builders import GitBench

from sandbox import SnapshotError
from sandbox.git.base import IgnoreRules


def test_rules_that_take_for_ever_are_given_up(tmp_path):
    # git 2.39 tries every way to share the components out among the `**`
    repositories = GitBench(tmp_path).repositories
    folder = tmp_path / "rules"
    folder.mkdir()
    (folder / ".gitignore").write_text("**/a*/" * 14 + "b*\n")
    repositories.git.run(tmp_path / "r.git", ["init", "--quiet", "--bare"])
    rules = IgnoreRules(
        repositories.git,
        repository=tmp_path / "r.git",
        folder=folder,
        has_rules=True,
        limit_seconds=0.5,
    )

    with pytest.raises(SnapshotError, match="ignore rules"):
        rules.ignored_among([b"/".join([b"a"] * 80)])
    assert rules.ignored_among([b"a/a/b"]) == frozenset()
