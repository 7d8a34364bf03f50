from policies import EntryKind
from sandbox.git.laying import LaidFile, lay_over, list_laid_paths
from sandbox.git.manifest import SUBDIRECTORY, Directory, Entry, TreeState
from sandbox.git.trees import MODE_FILE, TreeEntry

FILE = Entry(EntryKind.FILE, 0o644, 1, "a" * 40)
OTHER = Entry(EntryKind.FILE, 0o644, 1, "b" * 40)


def state(**directories):
    return TreeState(
        {
            path.replace("__", "/").encode(): Directory(0o755, 0, d)
            for path, d in directories.items()
        }
    )


def tree(**files):
    return {name.encode(): TreeEntry(MODE_FILE, oid) for name, oid in files.items()}


def test_only_paths_that_differ_are_laid():
    ours, theirs = tree(a="1", b="1", c="1"), tree(a="1", b="2", d="1")

    assert list_laid_paths(ours, theirs, ()) == [b"b", b"c", b"d"]


def test_a_restored_path_is_neither_changed_nor_removed_nor_added():
    ours = {b"tests/a": TreeEntry(MODE_FILE, "1"), b"tests/b": TreeEntry(MODE_FILE, "1")}
    theirs = {b"tests/a": TreeEntry(MODE_FILE, "2"), b"tests/new": TreeEntry(MODE_FILE, "1")}

    assert list_laid_paths(ours, theirs, ["tests/**"]) == []


def test_restoring_a_plain_path_restores_what_lies_below_it():
    ours = {b"tests/a": TreeEntry(MODE_FILE, "1")}
    theirs = {b"tests/a": TreeEntry(MODE_FILE, "2"), b"tests/deep/new": TreeEntry(MODE_FILE, "1")}

    assert list_laid_paths(ours, theirs, ["tests"]) == []


def test_a_directory_that_is_laid_empty_disappears():
    before = state(workspace={b"d": SUBDIRECTORY}, workspace__d={b"f": FILE})

    after = lay_over(before, [LaidFile(b"d/f", None)])

    assert after.directories.keys() == {b"workspace"}
    assert after.directories[b"workspace"].entries == {}


def test_a_directory_turns_into_a_file_and_a_file_into_a_directory():
    before = state(workspace={b"d": SUBDIRECTORY, b"f": FILE}, workspace__d={b"x": FILE})
    files = [LaidFile(b"d/x", None), LaidFile(b"d", OTHER)]
    files += [LaidFile(b"f", None), LaidFile(b"f/y", OTHER)]

    after = lay_over(before, files)

    assert after.directories[b"workspace"].entries == {b"d": OTHER, b"f": SUBDIRECTORY}
    assert after.directories[b"workspace/f"].entries == {b"y": OTHER}
    assert b"workspace/d" not in after.directories


def test_a_laid_file_does_not_replace_a_directory_that_still_holds_restored_files():
    before = state(workspace={b"tests": SUBDIRECTORY}, workspace__tests={b"t": FILE})

    after = lay_over(before, [LaidFile(b"tests", OTHER)])

    assert after == before


def test_a_laid_file_does_not_go_below_a_restored_file():
    before = state(workspace={b"tests": FILE})

    after = lay_over(before, [LaidFile(b"tests/new", OTHER)])

    assert after == before
