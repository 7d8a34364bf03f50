import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from release import ReleaseFile
from replies import Call, Repair, derive_calls, derive_edits, repair_replies, wrong_replies

LINES = st.lists(st.sampled_from(["a\n", "b\n", "\n", "    return x\n"]), max_size=12)


def apply(text, edits):
    for old, new in edits:
        assert text.find(old) == text.rfind(old) >= 0
        text = text.replace(old, new)
    return text


@settings(max_examples=60, deadline=None)
@given(before=LINES.filter(bool), after=LINES)
def test_edits_lead_from_one_text_to_the_other_and_are_never_ambiguous(before, after):
    old, new = "".join(before), "".join(after)

    edits = derive_edits(old, new)

    assert apply(old, edits) == new


def test_a_repeated_line_gets_enough_context():
    before = "def f():\n    return 1\n\ndef g():\n    return 1\n"
    after = "def f():\n    return 1\n\ndef g():\n    return 2\n"

    edits = derive_edits(before, after)

    assert len(edits) == 1
    assert apply(before, edits) == after


@pytest.mark.parametrize(
    ("before", "after", "tool"),
    [
        (None, b"new\n", "write_file"),
        (b"old\n", None, "shell"),
        (b"one\n", b"two\n", "write_file"),
        (b"1\n" + b"x\n" * 50, b"2\n" + b"x\n" * 50, "edit_file"),
    ],
)
def test_each_kind_of_change_has_its_tool(before, after, tool):
    old, new = (data if data is None else ReleaseFile(data) for data in (before, after))

    calls = tuple(derive_calls("p/m.py", old, new))

    assert [call.tool for call in calls] == [tool]


def repair():
    older = {
        "p/a.py": ReleaseFile(b"1\n"),
        "p/b.py": ReleaseFile(b"1\n"),
        "t.py": ReleaseFile(b""),
    }
    newer = {
        "p/a.py": ReleaseFile(b"2\n"),
        "p/b.py": ReleaseFile(b"2\n"),
        "t.py": ReleaseFile(b"2"),
    }
    return Repair(package="p", tests="tests/t.py", look_for="x", older=older, newer=newer)


def test_a_repair_changes_only_its_package_between_two_checks_and_finishes():
    calls = [call for reply in repair_replies(repair()) for call in reply.calls]

    assert [call.tool for call in calls] == [
        *("list_files", "search", "read_file", "run_verify"),
        *("write_file", "write_file", "run_verify", "finish"),
    ]
    assert {call.arguments["path"] for call in calls if call.tool == "write_file"} == {
        "p/a.py",
        "p/b.py",
    }


def test_a_wrong_fix_leaves_a_part_out_and_claims_to_be_done():
    calls = [call for reply in wrong_replies(repair(), "p/a.py") for call in reply.calls]

    assert Call("write_file", {"path": "p/a.py", "content": "2\n"}) in calls
    assert [call.tool for call in calls].count("write_file") == 1
    assert calls[-1].tool == "finish"
