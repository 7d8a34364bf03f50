"""What pydantic found wrong, in words for the author of a policy file."""

from __future__ import annotations

from typing import get_args

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from policies.yaml_tree import FieldPath

_EXPECTED = {
    "string_type": "expected text; quote a number or a date",
    "int_type": "expected a whole number",
    "bool_type": "expected true or false",
    "tuple_type": "expected a list",
    "dict_type": "expected a mapping of keys to values",
    "model_type": "expected a mapping of keys to values",
    "too_short": "is empty and would match nothing; leave it out to match everything",
    "string_too_short": "is empty",
    "missing": "is missing",
    "enum": "expected {expected}",
    "literal_error": "expected {expected}",
    "greater_than_equal": "expected at least {ge}",
    "less_than_equal": "expected at most {le}",
    "string_too_long": "expected at most {max_length} characters",
    "string_pattern_mismatch": "expected text of the form {pattern}",
    "value_error": "{error}",
}


def locate_error(error: ErrorDetails) -> FieldPath:
    """Return the path of the field that an error is about."""
    return tuple(step for step in error["loc"] if step != "[key]")


def describe_error(error: ErrorDetails, *, model: type[BaseModel]) -> str:
    """Return what was expected and, for a plain value, what was found."""
    if error["type"] == "extra_forbidden":
        known = ", ".join(_list_keys(model, error["loc"][:-1]))
        return f"unknown key; known here are {known}"
    wanted = _EXPECTED.get(error["type"], error["msg"]).format_map(error.get("ctx", {}))
    found = error["input"]
    if error["type"] in {"missing", "value_error"} or not isinstance(found, (str, int)):
        return wanted
    return f"{wanted}, found {str(found)[:80]!r}"


def _list_keys(model: type[BaseModel], path: FieldPath) -> list[str]:
    for step in path:
        if isinstance(step, str):
            fields = {info.alias or name: info for name, info in model.model_fields.items()}
            model = _find_model(fields[step].annotation) or model
    return [info.alias or name for name, info in model.model_fields.items()]


def _find_model(annotation: object) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    found = (_find_model(argument) for argument in get_args(annotation))
    return next((model for model in found if model is not None), None)
