from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies import Limits
from runner.application.tool_output import present_output
from runner.application.tools import ToolOutput
from runner.domain.text import decode_output
from sandbox import CappedOutput, CommandResult, Ending

LIMITS = Limits(shown_kib=2, evidence_mib=1)
ROOM = 2 * 1024


def stream(data: bytes, *, keep: int = 1 << 30) -> CappedOutput:
    digest = sha256(data).hexdigest()
    if len(data) <= keep:
        return CappedOutput(head=data, total_bytes=len(data), sha256=digest)
    half = keep // 2
    return CappedOutput(head=data[:half], tail=data[-half:], total_bytes=len(data), sha256=digest)


def result(stdout: bytes = b"", stderr: bytes = b"", **changed) -> CommandResult:
    fields = {"ending": Ending.EXITED, "exit_code": 0, **changed}
    return CommandResult(stdout=stream(stdout), stderr=stream(stderr), **fields)


def output(one: CommandResult, **changed) -> ToolOutput:
    return ToolOutput(**{"ok": one.ok, "results": (one,), **changed})


def test_short_output_is_shown_whole_with_its_exit_code_and_nothing_is_kept():
    shown = present_output(output(result(b"hello\n", b"oh\n")), limits=LIMITS)

    assert shown.text == "exit code 0\nstdout:\nhello\nstderr:\noh\n"
    assert shown.evidence is None
    assert shown.total_bytes == 9


def test_the_tools_own_words_replace_exit_code_and_labels_when_it_went_well():
    shown = present_output(output(result(b"1\n2\n"), text="a.txt:"), limits=LIMITS)

    assert shown.text == "a.txt:\n1\n2\n"


def test_a_failure_shows_words_exit_code_and_stderr():
    failed = output(result(stderr=b"no such file\n", exit_code=66), text="could not read a.txt")

    shown = present_output(failed, limits=LIMITS)

    assert shown.text == "could not read a.txt\nexit code 66\nstderr:\nno such file\n"


@pytest.mark.parametrize(
    ("limit", "words"),
    [
        ("call_seconds", "timed out after 120 s (policy limit call_seconds)"),
        ("wall_seconds", "timed out after 120 s (budget wall_seconds)"),
        ("the call's own timeout_seconds", "120 s (the call's own timeout_seconds)"),
    ],
)
def test_a_timeout_names_the_limit_and_its_value(limit, words):
    ended = result(ending=Ending.TIMED_OUT, exit_code=None)

    shown = present_output(
        output(ended, timeout_seconds=120.0, timeout_limit=limit), limits=LIMITS
    )

    assert words in shown.text


@pytest.mark.parametrize("ending", [one for one in Ending if one is not Ending.EXITED])
def test_every_other_ending_is_told_in_its_own_words(ending):
    ended = result(ending=ending, exit_code=None, detail="oom_kill 1")

    shown = present_output(output(ended), limits=LIMITS)

    assert "exit code" not in shown.text
    assert shown.text.endswith(": oom_kill 1")


def test_processes_that_were_left_and_killed_are_told():
    shown = present_output(output(result(killed_processes=2)), limits=LIMITS)

    assert shown.text == "exit code 0; 2 processes still running then were killed"


def test_long_output_of_one_stream_is_kept_byte_for_byte_under_the_digest_shown():
    data = bytes(range(256)) * 40

    shown = present_output(output(result(data)), limits=LIMITS)

    assert shown.evidence == data
    assert f"sha256 of all: {sha256(data).hexdigest()}" in shown.text


def test_two_long_streams_are_kept_under_headings():
    shown = present_output(output(result(b"o" * 5000, b"e" * 5000)), limits=LIMITS)

    assert b"--- stdout: 5000 bytes" in shown.evidence
    assert b"e" * 5000 in shown.evidence


def test_a_small_stream_is_whole_beside_a_large_one():
    shown = present_output(output(result(b"o" * 100_000, b"the cause")), limits=LIMITS)

    assert shown.text.endswith("stderr:\nthe cause")


def test_words_of_any_length_stay_within_the_room():
    shown = present_output(ToolOutput(ok=True, text="w" * 100_000), limits=LIMITS)

    assert len(shown.text) <= ROOM


@given(
    stdout=st.binary(max_size=60).map(lambda unit: unit * 150),
    stderr=st.binary(max_size=40) | st.text(max_size=30).map(lambda text: text.encode() * 120),
    keep=st.sampled_from([100, 3000, 1 << 30]),
)
def test_what_is_shown_and_kept_has_bounds_and_the_missing_bytes_are_exact(stdout, stderr, keep):
    one = CommandResult(
        ending=Ending.EXITED,
        exit_code=0,
        stdout=stream(stdout, keep=keep),
        stderr=stream(stderr, keep=keep),
    )

    shown = present_output(output(one), limits=LIMITS)

    assert len(shown.text.encode()) <= ROOM
    assert shown.total_bytes == len(stdout) + len(stderr)
    assert "\0" not in shown.text
    assert shown.evidence is None or len(shown.evidence) <= 1024 * 1024


@given(st.text(alphabet="aé€😀\n", min_size=1100, max_size=3000))
def test_head_gap_and_tail_add_up_to_the_whole_and_no_character_is_cut(text):
    data = text.encode()

    shown = present_output(output(result(data), text="x:"), limits=LIMITS).text

    if len(data) + 3 <= ROOM:
        assert shown == f"x:\n{text}"
    else:
        head, rest = shown.removeprefix("x:\n").split("\n[", 1)
        count, tail = rest.split(" of ", 1)[0], rest.split("]\n", 1)[1]
        assert "\N{REPLACEMENT CHARACTER}" not in shown
        assert data.startswith(head.encode())
        assert data.endswith(tail.encode())
        assert int(count) + len(head.encode()) + len(tail.encode()) == len(data)


def test_evidence_beyond_its_own_limit_says_what_is_missing():
    data = b"x" * (3 * 1024 * 1024)

    shown = present_output(output(result(data)), limits=LIMITS)

    assert len(shown.evidence) <= 1024 * 1024
    assert b"of 3145728 bytes are missing here" in shown.evidence


def test_output_that_is_not_utf8_is_shown_with_replacements():
    shown = present_output(output(result(b"a\xff\x00b")), limits=LIMITS)

    assert decode_output(b"a\xff\x00b").text in shown.text
