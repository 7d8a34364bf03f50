import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies import EntryKind
from sandbox import SnapshotError
from sandbox.git.manifest import (
    SUBDIRECTORY,
    Directory,
    Entry,
    TreeState,
    decode_directory,
    encode_manifest,
    encode_times,
    identify,
)
from sandbox.git.trees import blob_id

NAMES = st.binary(min_size=1, max_size=8).filter(
    lambda name: not {b"/", b"\0"} & {bytes((c,)) for c in name} and name not in (b".", b"..")
)
FILES = st.builds(
    Entry,
    st.just(EntryKind.FILE),
    st.integers(0, 0o7777),
    st.integers(0, 2**40),
    st.binary(max_size=4).map(blob_id),
    st.just(b""),
    st.integers(-(2**62), 2**62),
)
LINKS = st.binary(min_size=1, max_size=9).map(
    lambda target: Entry(EntryKind.SYMLINK, 0, len(target), blob_id(target), target, 5)
)
DIRECTORIES = st.builds(
    Directory,
    st.integers(0, 0o7777),
    st.integers(0, 2**62),
    st.dictionaries(NAMES, FILES | LINKS | st.just(SUBDIRECTORY), max_size=4),
)


@given(NAMES, DIRECTORIES)
def test_what_was_encoded_is_decoded_whatever_bytes_names_have(path, directory):
    manifest, times = encode_manifest(path, directory), encode_times(directory)

    assert decode_directory(manifest, times) == (path, directory)


@pytest.mark.parametrize(
    ("manifest", "times"),
    [
        (b"{}", b"[1]"),
        (b"[", b"[1]"),
        (b'{"entries":[{"kind":"file","name":"a"}],"mode":1,"path":"tmp"}', b"[1,2]"),
        (b'{"entries":[{"kind":"directory","name":".."}],"mode":1,"path":"tmp"}', b"[1]"),
        (b'{"entries":[{"kind":"directory","name":"a/b"}],"mode":1,"path":"tmp"}', b"[1]"),
        (b'{"entries":[],"mode":1,"path":"tmp"}', b"[]"),
    ],
)
def test_a_damaged_manifest_is_an_error_of_ours(manifest, times):
    with pytest.raises(SnapshotError, match="damaged"):
        decode_directory(manifest, times)


def test_content_id_ignores_times_and_snapshot_id_does_not():
    one = TreeState({b"tmp": Directory(0o755, 1)})
    two = TreeState({b"tmp": Directory(0o755, 2)})

    first, second = identify(one, "a" * 40), identify(two, "a" * 40)

    assert first.content_id == second.content_id
    assert first.snapshot_id != second.snapshot_id


def test_a_mode_changes_the_content_id():
    one = TreeState({b"tmp": Directory(0o755, 1)})
    two = TreeState({b"tmp": Directory(0o700, 1)})

    assert identify(one, "a" * 40).content_id != identify(two, "a" * 40).content_id
