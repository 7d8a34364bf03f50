import hashlib
import struct

from hypothesis import given
from hypothesis import strategies as st

from sandbox.docker.output import CappedStream, FrameReader


def frame(stream, data):
    return struct.pack(">B3xI", stream, len(data)) + data


@given(
    frames=st.lists(st.tuples(st.sampled_from([1, 2]), st.binary(max_size=40)), max_size=12),
    cuts=st.lists(st.integers(1, 9), min_size=1, max_size=8),
)
def test_frames_are_sorted_wherever_the_connection_cuts_them(frames, cuts):
    wire = b"".join(frame(stream, data) for stream, data in frames)
    reader = FrameReader(cap_bytes=10_000)

    position = 0
    step = 0
    while position < len(wire):
        size = cuts[step % len(cuts)]
        reader.feed(memoryview(wire[position : position + size]))
        position += size
        step += 1

    for number, stream in ((1, reader.stdout), (2, reader.stderr)):
        whole = b"".join(data for kind, data in frames if kind == number)
        kept = stream.finish()
        assert (kept.head, kept.tail, kept.missing_bytes) == (whole, b"", 0)
        assert kept.sha256 == hashlib.sha256(whole).hexdigest()


@given(data=st.binary(max_size=200), cap=st.integers(0, 120), size=st.integers(1, 50))
def test_head_and_tail_are_the_ends_of_the_stream_and_the_rest_is_counted(data, cap, size):
    stream = CappedStream(cap)

    for start in range(0, len(data), size):
        stream.add(data[start : start + size])

    kept = stream.finish()
    assert kept.total_bytes == len(data)
    assert kept.sha256 == hashlib.sha256(data).hexdigest()
    assert data.startswith(kept.head)
    assert data.endswith(kept.tail)
    assert kept.missing_bytes == max(0, len(data) - cap)


def test_a_long_stream_keeps_no_more_than_its_cap():
    stream = CappedStream(1000)

    for number in range(5_000):
        stream.add(number.to_bytes(4, "big") * 250)

    kept = stream.finish()
    assert kept.head == b"".join(n.to_bytes(4, "big") for n in [0] * 125)
    assert kept.tail == (4_999).to_bytes(4, "big") * 125
    assert kept.missing_bytes == 5_000 * 1000 - 1000
