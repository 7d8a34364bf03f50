import pytest

from sandbox.git.names import is_git_name, is_git_path


@pytest.mark.parametrize(
    "name",
    [
        b"",
        b".",
        b"..",
        b".git",
        b".GIT",
        b".Git",
        b"git~1",
        b"GIT~1",
        b".git ",
        b".git. .",
        b".git::$INDEX_ALLOCATION",
        b"a\\.git",
        ".g\u200cit".encode(),
        "\ufeff.git".encode(),
        ".gi\u200dT".encode(),
    ],
)
def test_a_spelling_of_dot_git_is_refused(name):
    assert not is_git_name(name)


@pytest.mark.parametrize(
    "name", [b".gitignore", b"git", b"git~2", b".gitx", b"...", b"a\xff", b"-x", b"\n", b".git~1"]
)
def test_other_names_are_held(name):
    assert is_git_name(name)


@pytest.mark.parametrize("name", [b".gitmodules", b".GitModules", b"gitmod~1", b".gitmodules ."])
def test_only_a_symlink_is_refused_as_gitmodules(name):
    assert is_git_name(name)
    assert not is_git_name(name, symlink=True)


def test_each_component_of_a_path_counts():
    assert is_git_path(b"a/b/c")
    assert not is_git_path(b"a/.git/c")
    assert not is_git_path(b"a/.gitmodules", symlink=True)
    assert is_git_path(b".gitmodules/a", symlink=True)
