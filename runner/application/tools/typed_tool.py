"""A tool made of a pydantic model of its arguments and two functions over it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails

from policies import Json
from runner.application.tools.tool import ToolContext, ToolOutput
from runner.domain.arguments import parse_arguments
from runner.domain.calls import ToolSchema
from runner.errors import BadArgumentsError

SHOWN_PROBLEMS = 5
"""How many wrong fields one refusal names."""


class ToolArguments(BaseModel):
    """Arguments of a tool: exact types, no unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


ArgumentsT = TypeVar("ArgumentsT", bound=ToolArguments)


def _no_paths(_arguments: ToolArguments) -> tuple[str, ...]:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TypedTool(Generic[ArgumentsT]):
    """Implements Tool over one class of arguments."""

    name: str
    description: str
    arguments: type[ArgumentsT]
    writes: bool
    ends_run: bool = False
    run_call: Callable[[ArgumentsT, ToolContext], ToolOutput]
    list_paths: Callable[[ArgumentsT], tuple[str, ...]] = _no_paths

    @property
    def schema(self) -> ToolSchema:
        """Return what a model is told; the JSON Schema comes from the arguments' class."""
        return ToolSchema(
            name=self.name,
            description=self.description,
            parameters=_make_schema(self.arguments),
        )

    def parse(self, arguments_text: str) -> ArgumentsT:
        """Return the validated arguments.

        Raises:
            BadArgumentsError: no JSON object, or fields missing, unknown or of wrong type.
        """
        try:
            return self.arguments.model_validate(parse_arguments(arguments_text))
        except ValidationError as error:
            problems = tuple(_tell(one) for one in error.errors(include_input=False))
            raise self._refuse(*problems[:SHOWN_PROBLEMS]) from error
        except ValueError as error:
            raise self._refuse(str(error)) from error

    def paths(self, arguments: BaseModel) -> tuple[str, ...]:
        """Return the paths that the arguments name."""
        return self.list_paths(self._own(arguments))

    def run(self, arguments: BaseModel, context: ToolContext) -> ToolOutput:
        """Carry the call out in the sandbox.

        Raises:
            SandboxLostError, EngineUnavailableError: what stopped us from knowing.
        """
        return self.run_call(self._own(arguments), context)

    def _own(self, arguments: BaseModel) -> ArgumentsT:
        if not isinstance(arguments, self.arguments):
            raise TypeError(f"{self.name} was given {type(arguments).__name__}")
        return arguments

    def _refuse(self, *problems: str) -> BadArgumentsError:
        fields = self.arguments.model_fields.items()
        takes = ", ".join(
            f"{name} ({_type_name(field.annotation)}, "
            f"{'required' if field.is_required() else 'optional'})"
            for name, field in fields
        )
        expected = f"It takes one JSON object with: {takes or 'no fields'}."
        return BadArgumentsError(self.name, problems, expected=expected)


def _tell(problem: ErrorDetails) -> str:
    where = ".".join(str(part) for part in problem["loc"])[:100]
    return f"{where}: {problem['msg']}" if where else problem["msg"]


def _type_name(annotation: object) -> str:
    names = {str: "string", int: "integer", bool: "boolean"}
    return names.get(annotation, "value") if isinstance(annotation, type) else "value"


def _make_schema(arguments: type[BaseModel]) -> Json:
    """Return the JSON Schema without the class's docstring, which is not for models."""
    schema = arguments.model_json_schema()
    return {
        key: _drop_titles(schema[key]) for key in schema if key not in ("title", "description")
    }


def _drop_titles(schema: Json) -> Json:
    """Leave out pydantic's titles: they repeat the names and cost tokens in every request."""
    if isinstance(schema, dict):
        return {
            key: _drop_titles(value)
            for key, value in schema.items()
            if key != "title" or not isinstance(value, str)
        }
    if isinstance(schema, list):
        return [_drop_titles(one) for one in schema]
    return schema
