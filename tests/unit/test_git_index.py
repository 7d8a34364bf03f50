import hashlib

from sandbox.git.index import IndexEntry, encode_index
from sandbox.git.trees import MODE_FILE, TreeEntry

OID = "ab" * 20


def test_an_index_without_entries_is_a_header_and_its_hash():
    data = encode_index([])

    assert data[:12] == b"DIRC\0\0\0\x02\0\0\0\0"
    assert data[12:] == hashlib.sha1(data[:12]).digest()


def test_entries_are_sorted_by_bytes_and_padded_to_eight():
    entries = [IndexEntry(name, TreeEntry(MODE_FILE, OID)) for name in (b"b", b"a/b", b"a")]

    data = encode_index(entries)

    assert (len(data) - 12 - 20) % 8 == 0
    assert [data.index(b"\0" + bytes((len(n),)) + n + b"\0") for n in (b"a", b"a/b", b"b")] == [
        12 + 60,
        12 + 64 + 60,
        12 + 64 + 72 + 60,
    ]


def test_a_long_name_is_counted_at_most_as_0xfff():
    data = encode_index([IndexEntry(b"x" * 5000, TreeEntry(MODE_FILE, OID))])

    assert data[12 + 60 : 12 + 62] == b"\x0f\xff"


def test_times_and_sizes_beyond_32_bits_are_cut_as_git_cuts_them():
    entry = IndexEntry(
        b"a", TreeEntry(MODE_FILE, OID), mtime_ns=(2**32 + 5) * 10**9 + 7, size=2**32 + 9
    )

    data = encode_index([entry])

    assert data[20:28] == b"\0\0\0\x05\0\0\0\x07"
    assert data[48:52] == b"\0\0\0\x09"
