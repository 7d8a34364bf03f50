import pytest

from sandbox.git.stream import quote_path


@pytest.mark.parametrize(
    ("path", "quoted"),
    [
        (b"a b", b'"a b"'),
        (b'a"b', b'"a\\042b"'),
        (b"a\\b", b'"a\\134b"'),
        (b"a\nb", b'"a\\012b"'),
        (b"\xff\x7f", b'"\\377\\177"'),
        (b"-x", b'"-x"'),
    ],
)
def test_a_path_is_quoted_so_that_no_byte_ends_the_line(path, quoted):
    assert quote_path(path) == quoted
