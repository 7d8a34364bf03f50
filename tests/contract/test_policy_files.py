from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
import yaml

import policies
from policies import (
    BUILTIN_NAMES,
    ChangeKind,
    DiskLimit,
    Limits,
    NetworkMode,
    PolicyFileError,
    PolicyRefusedError,
    Verdict,
    explain_change,
    load_policy,
    parse_policy,
    schema_text,
)

PACKAGE = Path(policies.__file__).parent


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def deny(rule_id: str) -> str:
    return f"version: 1\nchanges: [{{id: {rule_id}, match: {{paths: [{rule_id}]}}, then: deny}}]\n"


@pytest.mark.parametrize("name", BUILTIN_NAMES)
def test_a_built_in_policy_loads_and_gives_what_the_defaults_promise(name: str) -> None:
    policy = load_policy(name, folder=None)

    assert policy.name == name
    assert policy.sandbox.limits == Limits()
    assert policy.sandbox.network.mode is NetworkMode.NONE
    assert policy.sandbox.mounts == ()
    assert policy.sandbox.env_pass == ()
    assert len(policy.tools) == 8
    assert parse_policy(policy.source) == policy


def test_the_built_in_policies_differ_in_how_the_disk_is_limited_only() -> None:
    repair = load_policy("repair", folder=None).sandbox
    watched = load_policy("repair-watched", folder=None).sandbox

    assert repair.disk is DiskLimit.HARD
    assert watched.disk is DiskLimit.WATCHED
    assert repair.limits == watched.limits


def test_all_layers_of_the_folder_apply(tmp_path: Path) -> None:
    write(tmp_path / "organisation.yaml", deny("org") + "sandbox: {limits: {pids: 100}}\n")
    write(tmp_path / "repos/example.org/a/b.yaml", deny("repo"))
    write(tmp_path / "repos/example.org/a/c.yaml", deny("other"))
    batch = write(tmp_path / "batch.yaml", deny("batch") + "sandbox: {limits: {pids: 200}}\n")

    policy = load_policy(str(batch), folder=tmp_path, repository="https://example.org/a/b.git")

    assert [rule.id for rule in policy.changes] == ["org", "repo", "batch"]
    assert policy.sandbox.limits.pids == 100
    assert policy.name == "batch"
    assert explain_change(policy, path="repo", kind=ChangeKind.ADDED).verdict is Verdict.DENY


def test_a_folder_without_files_adds_no_layer(tmp_path: Path) -> None:
    given = load_policy("repair", folder=tmp_path / "missing", repository="/srv/x")

    assert given == load_policy("repair", folder=None)


def test_an_error_in_the_organisations_file_stops_every_load(tmp_path: Path) -> None:
    file = write(tmp_path / "organisation.yaml", "version: 1\napprovals: {}\n")

    with pytest.raises(PolicyRefusedError) as caught:
        load_policy("repair", folder=tmp_path)

    assert (caught.value.file, caught.value.line) == (str(file), 2)


def test_a_layer_that_cannot_be_read_stops_the_load(tmp_path: Path) -> None:
    (tmp_path / "organisation.yaml").symlink_to(tmp_path / "gone.yaml")

    with pytest.raises(PolicyFileError, match="cannot be read"):
        load_policy("repair", folder=tmp_path)


@pytest.mark.parametrize("name", ["repiar", "ceiling", "", "./missing.yaml", "missing.yaml"])
def test_a_policy_that_does_not_exist_is_an_error(name: str) -> None:
    with pytest.raises(PolicyFileError):
        load_policy(name, folder=None)


def test_a_file_that_is_not_text_or_too_large_is_an_error(tmp_path: Path) -> None:
    binary = tmp_path / "binary.yaml"
    binary.write_bytes(b"version: 1\n\xff")
    large = write(tmp_path / "large.yaml", "#" * (1024 * 1024 + 1))

    with pytest.raises(PolicyFileError, match="UTF-8") as caught:
        load_policy(str(binary), folder=None)
    assert caught.value.line == 2
    with pytest.raises(PolicyFileError, match="larger than"):
        load_policy(str(large), folder=None)


def test_the_schema_file_is_what_the_models_make() -> None:
    assert (PACKAGE / "policy.schema.json").read_text() == schema_text()


@pytest.mark.parametrize("name", [*BUILTIN_NAMES, "ceiling"])
def test_the_schema_accepts_the_built_in_files(name: str) -> None:
    document = yaml.safe_load((PACKAGE / "builtin" / f"{name}.yaml").read_text())

    jsonschema.validate(document, json.loads(schema_text()))


@pytest.mark.parametrize(
    "document",
    [
        {"toolz": []},
        {"version": 2},
        {"tools": None},
        {"default": {"commands": "ask"}},
        {"sandbox": {"network": {"mode": "allowlist"}}},
        {"sandbox": {"rootfs": "writable"}},
        {"reviewer": {}},
    ],
)
def test_the_schema_refuses_what_the_loader_refuses(document: object) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document, json.loads(schema_text()))
