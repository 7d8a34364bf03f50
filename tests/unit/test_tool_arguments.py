import json

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies import canonical_json
from runner.application.tools import TOOL_NAMES, BadArgumentsError, make_tools
from runner.application.tools.workspace_path import argument_of, normalise_path
from runner.domain.arguments import object_text, parse_arguments
from runner.errors import NotFoundError

TOOLS = make_tools(TOOL_NAMES)

VALID = {
    "shell": {"command": "ls"},
    "read_file": {"path": "a"},
    "write_file": {"path": "a", "content": ""},
    "edit_file": {"path": "a", "old": "b", "new": ""},
    "list_files": {},
    "search": {"pattern": "x"},
    "run_verify": {},
    "finish": {"summary": "done"},
}


def test_the_examples_cover_every_tool():
    assert set(VALID) == set(TOOL_NAMES)


@pytest.mark.parametrize("name", TOOL_NAMES)
def test_schema_and_parser_accept_the_same_example_and_refuse_an_unknown_field(name):
    tool = TOOLS[name]
    schema = json.loads(canonical_json(tool.schema.parameters))

    tool.parse(json.dumps(VALID[name]))
    jsonschema.validate(VALID[name], schema)

    with pytest.raises(BadArgumentsError):
        tool.parse(json.dumps({**VALID[name], "extra": 1}))
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**VALID[name], "extra": 1}, schema)


@pytest.mark.parametrize("name", TOOL_NAMES)
def test_parsed_arguments_have_a_canonical_form(name):
    parsed = TOOLS[name].parse(json.dumps(VALID[name]))

    assert canonical_json(parsed.model_dump(mode="json"))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"path": "a"', "not valid JSON"),
        ("[1]", "not an array"),
        ("null", "not null"),
        ("7", "not a number"),
        ('"plain"', "not valid JSON"),
        ('{"path": NaN}', "not valid JSON: NaN"),
        ("[" * 100_000, "nested too deeply"),
        ("{}", "path: Field required"),
        ('{"path": 7}', "path: Input should be a valid string"),
        ('{"path": "a", "limit": "5"}', "limit: Input should be a valid integer"),
        ('{"path": "a", "limit": 5.0}', "limit: Input should be a valid integer"),
        ('{"path": "a", "lines": 5}', "lines: Extra inputs are not permitted"),
        ('{"path": "  "}', "path: Value error, it is empty"),
        (r'{"path": "a\u0000b"}', "NUL byte"),
        (r'{"path": "\ud800"}', "surrogate"),
        (json.dumps({"path": "a" * 5000}), "longer than 4096 bytes"),
    ],
)
def test_bad_arguments_name_field_problem_and_what_is_taken(text, told):
    with pytest.raises(BadArgumentsError) as refused:
        TOOLS["read_file"].parse(text)

    assert told in str(refused.value)
    assert "path (string, required), offset (integer, optional)" in str(refused.value)


def test_a_refusal_never_repeats_a_large_value():
    with pytest.raises(BadArgumentsError) as refused:
        TOOLS["read_file"].parse(json.dumps({"path": ["x" * 10_000], "y" * 10_000: 1}))

    assert len(str(refused.value)) < 1000


def test_a_command_too_long_for_an_argument_vector_is_refused():
    with pytest.raises(BadArgumentsError, match="write it to a file"):
        TOOLS["shell"].parse(json.dumps({"command": "x" * 100_001}))


@pytest.mark.parametrize("text", ["", "  ", "{}", '"{}"'])
def test_no_arguments_in_all_their_forms(text):
    assert TOOLS["list_files"].parse(text).model_dump() == {"path": ".", "depth": 3}


@given(st.text(max_size=30) | st.sampled_from(['"{}"', '"[]"', "[]", '{"a": 1.5}', "", "1"]))
def test_an_object_text_is_an_object_that_stands_for_the_same(text):
    found = object_text(text)

    if found is not None:
        assert isinstance(json.loads(found), dict)
        assert parse_arguments(found) == parse_arguments(text)


@pytest.mark.parametrize(
    ("path", "normal"),
    [
        ("a/./b//c", "a/b/c"),
        ("a/../b", "b"),
        ("/workspace/a", "a"),
        ("/workspace", "."),
        ("./", "."),
        ("..", "/"),
        ("../etc/passwd", "/etc/passwd"),
        ("/workspace/../etc", "/etc"),
        ("/workspaces/a", "/workspaces/a"),
        ("//workspace/a", "a"),
        ("//etc", "/etc"),
        ("../workspace/a", "a"),
    ],
)
def test_paths_have_one_form_and_outside_shows_as_absolute(path, normal):
    assert normalise_path(path) == normal
    assert TOOLS["read_file"].paths(TOOLS["read_file"].parse(json.dumps({"path": path}))) == (
        normal,
    )


@given(st.text(min_size=1, max_size=20))
def test_a_path_in_an_argument_vector_never_looks_like_an_option(path):
    assert argument_of(path)[0] in "./"
    assert normalise_path(argument_of(path)) == normalise_path(path)


def test_tools_come_in_one_order_and_an_unknown_name_is_refused():
    assert list(make_tools(["search", "shell"])) == ["shell", "search"]
    with pytest.raises(NotFoundError, match="'browse'"):
        make_tools(["shell", "browse"])


def test_only_finish_ends_a_run_and_readers_do_not_write():
    assert [name for name, tool in TOOLS.items() if tool.ends_run] == ["finish"]
    assert [name for name, tool in TOOLS.items() if tool.writes] == [
        "shell",
        "write_file",
        "edit_file",
        "run_verify",
    ]


def test_a_tool_refuses_the_arguments_of_another():
    with pytest.raises(TypeError):
        TOOLS["shell"].paths(TOOLS["finish"].parse('{"summary": ""}'))
