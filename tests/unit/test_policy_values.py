from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies import (
    Action,
    CanonicalFormError,
    Change,
    ChangeKind,
    Changes,
    EntryKind,
    Limits,
    Mount,
    Network,
    NetworkMode,
    canonical_arguments,
    canonical_json,
    digest_bytes,
    digest_json,
    show_path,
)

ACTION = Action(tool="shell", arguments='{"command":"ls"}')


def make_change(path: bytes, kind: ChangeKind = ChangeKind.ADDED) -> Change:
    return Change(path=path, kind=kind, entry=EntryKind.FILE)


def test_canonical_json_has_one_form_for_equal_values() -> None:
    first = canonical_json({"b": [1, None, True], "a": "é\n"})

    assert first == canonical_json({"a": "é\n", "b": (1, None, True)})
    assert first == '{"a":"é\\n","b":[1,null,true]}'.encode()


@pytest.mark.parametrize(
    ("value", "where"),
    [
        (1.5, "value"),
        ({"a": [0, 1.0]}, r"a\[1\]"),
        ({"a": {1: "x"}}, "a"),
        ({"a": b"x"}, "a"),
        ("\ud800", "value"),
        ({"\udfff": 1}, "value"),
    ],
)
def test_what_has_no_canonical_form_is_refused(value: object, where: str) -> None:
    with pytest.raises(CanonicalFormError, match=where):
        canonical_json(value)  # type: ignore[arg-type]  # that is what is tested


def test_digests_name_their_algorithm_and_cover_the_canonical_form() -> None:
    assert digest_json({"a": 1}) == digest_bytes(b'{"a":1}')
    assert digest_bytes(b"").startswith("sha256:e3b0c442")


def test_arguments_are_one_text_whatever_their_order() -> None:
    assert canonical_arguments({"b": 1, "a": 2}) == '{"a":2,"b":1}'


@pytest.mark.parametrize(
    "other",
    [
        replace(ACTION, tool="search"),
        replace(ACTION, arguments="{}"),
        replace(ACTION, cwd="/workspace/src"),
        replace(ACTION, environment=(("A", "1"),)),
        replace(ACTION, network=Network(mode=NetworkMode.OPEN)),
        replace(ACTION, mounts=(Mount(source="/a", target="/b"),)),
        replace(ACTION, limits=Limits(pids=7)),
    ],
)
def test_an_actions_digest_changes_with_everything_that_decides_what_it_can_do(
    other: Action,
) -> None:
    assert other.digest != ACTION.digest


def test_an_action_reaches_outside_through_network_and_writable_mounts_only() -> None:
    read_only = replace(ACTION, mounts=(Mount(source="/a", target="/b"),))
    writable = replace(ACTION, mounts=(Mount(source="/a", target="/b", writable=True),))

    assert not ACTION.reaches_outside
    assert not read_only.reaches_outside
    assert writable.reaches_outside
    assert replace(ACTION, network=Network(mode=NetworkMode.OPEN)).reaches_outside


def test_changes_are_ordered_by_path_and_counted_by_kind() -> None:
    changes = Changes.of(
        [make_change(b"b"), make_change(b"a", ChangeKind.DELETED), make_change(b"a/b")]
    )

    assert [change.path for change in changes.items] == [b"a", b"a/b", b"b"]
    assert changes.count(ChangeKind.ADDED) == 2
    assert changes.digest == Changes.of(reversed(changes.items)).digest


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        (b"a/b", "a/b"),
        ("é".encode(), "é"),
        (b"\xff", r"\xff"),
        (rb"\xff", r"\\xff"),
        (b"a\nb", "a\nb"),
    ],
)
def test_a_name_is_shown_with_its_odd_bytes(path: bytes, shown: str) -> None:
    assert show_path(path) == shown


@given(st.binary(max_size=8), st.binary(max_size=8))
def test_no_two_names_are_shown_alike(first: bytes, second: bytes) -> None:
    assert (show_path(first) == show_path(second)) == (first == second)
