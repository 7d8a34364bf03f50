from __future__ import annotations

from collections.abc import Mapping

import pytest

from policies.document import Document
from policies.merge import merge_documents


def make_layer(value: Mapping[str, object]) -> Document:
    return Document.model_validate(value)


def merge(*values: Mapping[str, object]) -> Document:
    return merge_documents([make_layer(value) for value in values])


def sandbox(**parts: object) -> dict[str, object]:
    return {"sandbox": parts}


def mount(mode: str = "ro", source: str = "/srv/a") -> dict[str, object]:
    return {"source": source, "target": "/a", "mode": mode}


def rule(rule_id: str, then: str = "deny") -> dict[str, object]:
    return {"id": rule_id, "match": {}, "then": then}


@pytest.mark.parametrize(
    ("layers", "merged"),
    [
        ([{"tools": ("shell", "finish")}, {}], {"tools": ("shell", "finish")}),
        ([{"tools": ("shell", "finish")}, {"tools": ("finish",)}], {"tools": ("finish",)}),
        ([{"tools": ("shell",)}, {"tools": ()}], {"tools": ()}),
        ([{"tools": ()}, {"tools": ("shell",)}], {"tools": ()}),
        ([{"tools": ("a", "b", "c")}, {"tools": ("c", "a", "d")}], {"tools": ("c", "a")}),
        ([{"name": "outer"}, {"name": "inner"}], {"name": "inner"}),
        ([{"name": "outer"}, {}], {"name": None}),
        ([{"commands": (rule("a"),)}, {"commands": (rule("b"),)}], {"commands": ("a", "b")}),
        ([{"changes": (rule("a"),)}, {"changes": (rule("a"),)}], {"changes": ("a",)}),
    ],
)
def test_names_are_narrowed_and_rules_united(
    layers: list[Mapping[str, object]], merged: Mapping[str, object]
) -> None:
    document = merge(*layers)

    shown = {
        "name": document.name,
        "tools": document.tools,
        "commands": tuple(part.id for part in document.commands or ()),
        "changes": tuple(part.id for part in document.changes or ()),
    }
    assert {key: shown[key] for key in merged} == merged


@pytest.mark.parametrize(
    ("layers", "merged"),
    [
        ([{"network": {"mode": "open"}}, {}], {"network": {"mode": "open"}}),
        (
            [{"network": {"mode": "open"}}, {"network": {"mode": "none"}}],
            {"network": {"mode": "none"}},
        ),
        (
            [{"network": {"mode": "none"}}, {"network": {"mode": "open"}}],
            {"network": {"mode": "none"}},
        ),
        (
            [
                {"network": {"mode": "allowlist", "hosts": ("a", "b")}},
                {"network": {"mode": "open"}},
            ],
            {"network": {"mode": "allowlist", "hosts": ("a", "b")}},
        ),
        (
            [
                {"network": {"mode": "allowlist", "hosts": ("a", "b")}},
                {"network": {"mode": "allowlist", "hosts": ("b", "c")}},
            ],
            {"network": {"mode": "allowlist", "hosts": ("b",)}},
        ),
        (
            [
                {"network": {"mode": "allowlist", "hosts": ("a",)}},
                {"network": {"mode": "allowlist", "hosts": ()}},
            ],
            {"network": {"mode": "allowlist", "hosts": ()}},
        ),
        (
            [{"network": {"mode": "allowlist", "hosts": ("a",)}}, {"network": {"mode": "none"}}],
            {"network": {"mode": "none", "hosts": ("a",)}},
        ),
        (
            [{"setup_network": ("none", "open")}, {"setup_network": ("none",)}],
            {"setup_network": ("none",)},
        ),
        ([{"rootfs": "writable"}, {"rootfs": "read-only"}], {"rootfs": "read-only"}),
        ([{"rootfs": "writable"}, {}], {"rootfs": "writable"}),
        ([{"disk": "hard"}, {"disk": "watched"}], {"disk": "hard"}),
        ([{}, {"disk": "watched"}], {"disk": "watched"}),
        ([{"mounts": (mount(),)}, {}], {"mounts": (mount(),)}),
        ([{"mounts": (mount(),)}, {"mounts": ()}], {"mounts": ()}),
        ([{"mounts": (mount("rw"),)}, {"mounts": (mount("ro"),)}], {"mounts": (mount("ro"),)}),
        ([{"mounts": (mount("ro"),)}, {"mounts": (mount("rw"),)}], {"mounts": (mount("ro"),)}),
        ([{"mounts": (mount("rw"),)}, {"mounts": (mount("rw"),)}], {"mounts": (mount("rw"),)}),
        ([{"mounts": (mount(),)}, {"mounts": (mount(source="/srv"),)}], {"mounts": ()}),
        (
            [{"env": {"pass": ("A", "B")}}, {"env": {"pass": ("B", "C")}}],
            {"env": {"pass": ("B",)}},
        ),
        (
            [{"env": {"set": {"A": "1", "B": "1"}}}, {"env": {"set": {"B": "2", "C": "2"}}}],
            {"env": {"set": {"B": "1"}}},
        ),
        ([{"env": {"pass": ("A",)}}, {"env": {"set": {}}}], {"env": {"pass": ("A",), "set": {}}}),
        (
            [{"limits": {"pids": 10, "memory_mib": 5}}, {"limits": {"pids": 20}}],
            {"limits": {"pids": 10, "memory_mib": 5}},
        ),
        ([{"limits": {"cpus": 2}}, {"limits": {"cpus": 1}}], {"limits": {"cpus": 1}}),
    ],
)
def test_each_layer_only_narrows_what_the_container_is_given(
    layers: list[Mapping[str, object]], merged: Mapping[str, object]
) -> None:
    document = merge(*({"sandbox": layer} for layer in layers))

    expected = make_layer({"sandbox": merged}).sandbox
    assert expected is not None
    assert document.sandbox is not None
    for part in merged:
        assert getattr(document.sandbox, part) == getattr(expected, part)


@pytest.mark.parametrize(
    ("outer", "inner", "merged"),
    [
        ("allow", "deny", "deny"),
        ("deny", "allow", "deny"),
        ("review", "ask", "ask"),
        ("ask", "deny", "deny"),
        ("allow", "review", "review"),
    ],
)
def test_the_more_severe_default_stands(outer: str, inner: str, merged: str) -> None:
    document = merge({"default": {"commands": outer}}, {"default": {"commands": inner}})

    assert document.default is not None
    assert document.default.commands == merged
    assert document.default.changes is None


def test_what_no_layer_writes_is_not_written() -> None:
    document = merge({}, {})

    assert document.tools is None
    assert document.sandbox is not None
    assert document.sandbox.mounts is None
    assert document.sandbox.limits is not None
    assert document.sandbox.limits.pids is None
