from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies import GlobError, match_path, parse_glob
from policies.glob import split_path


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("pytest.ini", "pytest.ini"),
        ("/pytest.ini", "pytest.ini"),
        ("tests/**", "tests/test_a.py"),
        ("tests/**", "tests/deep/er/test_a.py"),
        ("tests/**", "tests"),
        ("tests/", "tests/test_a.py"),
        ("**/conftest.py", "conftest.py"),
        ("**/conftest.py", "a/b/conftest.py"),
        ("a/**/b", "a/b"),
        ("a/**/b", "a/x/y/b"),
        ("a/**/b/**/c", "a/b/b/x/c"),
        ("*.py", "setup.py"),
        ("*", ".hidden"),
        ("src/?.py", "src/a.py"),
        ("src/?.py", "src/é.py".encode()),
        ("src/?.py", b"src/\xff.py"),
        ("src/[a-c].py", "src/b.py"),
        ("src/[!a-c].py", "src/d.py"),
        ("src/[^a-c].py", "src/d.py"),
        ("[]x]", "]"),
        ("[!]]", "x"),
        ("[a-]", "-"),
        ("[*]", "*"),
        ("**", "any/thing"),
        ("**", ""),
        ("{{cookiecutter.name}}/**", "{{cookiecutter.name}}/setup.py"),
        ("a/b", "./a//b/"),
    ],
)
def test_a_pattern_names_a_path(pattern: str, path: str | bytes) -> None:
    assert match_path(pattern, path)


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("pytest.py", "src/pytest.py"),
        ("tests/**", "tests2/test_a.py"),
        ("tests/**", "src/tests/test_a.py"),
        ("tests/**", "Tests/test_a.py"),
        ("tests/*", "tests/deep/test_a.py"),
        ("tests/*", "tests"),
        ("tests", "tests/test_a.py"),
        ("**/conftest.py", "xconftest.py"),
        ("a*b", "a/b"),
        ("a?b", "a/b"),
        ("a[!x]b", "a/b"),
        ("src/?.py", "src/ab.py"),
        ("*.py", "setup.pyc"),
        ("[!a]", ""),
        ("etc/passwd", "/etc/passwd"),
        ("/etc/passwd", "/etc/passwd"),
        ("*", "../x"),
    ],
)
def test_a_pattern_does_not_name_a_path(pattern: str, path: str | bytes) -> None:
    assert not match_path(pattern, path)


@pytest.mark.parametrize(
    "pattern",
    [
        "",
        "/",
        "//a",
        "a//b",
        "./a",
        "a/../b",
        "**.py",
        "a/b**",
        "***",
        "!a",
        "a\\b",
        "a\0",
        "[a",
        "a[/]b",
        "[]",
        "[z-a]",
        "a" * 1025,
    ],
)
def test_a_pattern_that_cannot_mean_what_it_says_is_refused(pattern: str) -> None:
    with pytest.raises(GlobError):
        parse_glob(pattern)


def test_a_path_outside_the_workspace_keeps_its_first_component() -> None:
    assert split_path("/etc/passwd") == ("", "etc", "passwd")
    assert split_path("../x") == ("..", "x")


def test_many_runs_do_not_make_matching_slow() -> None:
    assert not match_path("*a" * 40 + "b", "a" * 2000)
    assert not match_path("/".join(["**", "a"] * 40) + "/b", "/".join(["a"] * 500))


def _matches_naively(pattern: list[str], path: list[str]) -> bool:
    if not pattern:
        return not path
    if pattern[0] == "**":
        return any(_matches_naively(pattern[1:], path[skip:]) for skip in range(len(path) + 1))
    return (
        bool(path)
        and _name_matches_naively(pattern[0], path[0])
        and _matches_naively(pattern[1:], path[1:])
    )


def _name_matches_naively(pattern: str, name: str) -> bool:
    if not pattern:
        return not name
    if pattern[0] == "*":
        return any(
            _name_matches_naively(pattern[1:], name[skip:]) for skip in range(len(name) + 1)
        )
    return (
        bool(name)
        and pattern[0] in {"?", name[0]}
        and _name_matches_naively(pattern[1:], name[1:])
    )


_PATTERN_NAME = st.text("ab*?", min_size=1, max_size=5).filter(lambda name: "**" not in name)
_PATTERN = st.lists(st.one_of(st.just("**"), _PATTERN_NAME), min_size=1, max_size=6)
_PATH = st.lists(st.text("ab", min_size=1, max_size=5), min_size=1, max_size=6)


@settings(max_examples=300, deadline=None)
@given(_PATTERN, _PATH)
def test_matching_agrees_with_trying_everything(pattern: list[str], path: list[str]) -> None:
    assert match_path("/".join(pattern), "/".join(path)) == _matches_naively(pattern, path)


@settings(max_examples=200, deadline=None)
@given(st.text("ab*?[]-!^/\\", max_size=12), st.binary(max_size=12))
def test_any_text_is_a_pattern_or_refused(pattern: str, path: bytes) -> None:
    try:
        parsed = parse_glob(pattern)
    except GlobError:
        return

    assert parsed.matches(path) in {True, False}
