"""A script: the replies of an agent of kind scripted, in order."""

from __future__ import annotations

import json
from typing import cast

import yaml
from pydantic import Field, JsonValue, ValidationError

from policies import CanonicalFormError, Json, canonical_json, digest_bytes
from runner.domain.task import Strict
from runner.errors import ScriptError

NAME_DIGITS = 16
"""How many digits of a script's digest name it as a model."""


class ScriptedCall(Strict):
    """One tool call of a reply."""

    tool: str
    arguments: dict[str, JsonValue] = Field(default_factory=dict)
    arguments_text: str | None = None
    """The exact text to send in place of `arguments`, malformed if need be; None = not used."""

    @property
    def text(self) -> str:
        """The arguments as they are sent."""
        if self.arguments_text is not None:
            return self.arguments_text
        return canonical_json(cast("Json", self.arguments)).decode()


class ScriptedReply(Strict):
    """One answer of the model."""

    text: str = ""
    calls: tuple[ScriptedCall, ...] = ()


class Script(Strict):
    """All answers, in order; made by parse_script, which checks that it has a canonical form."""

    replies: tuple[ScriptedReply, ...] = Field(min_length=1)

    @property
    def canonical_text(self) -> str:
        """Canonical JSON text: what AgentSpec.script holds."""
        return canonical_json(self.model_dump(mode="json", exclude_none=True)).decode()

    @property
    def model_name(self) -> str:
        """The name under which a request asks for this script: `script-` and 16 digits."""
        digest = digest_bytes(self.canonical_text.encode()).removeprefix("sha256:")
        return f"script-{digest[:NAME_DIGITS]}"

    def reply_at(self, number: int) -> ScriptedReply:
        """Return the reply after `number` assistant messages, from 0; past the end, words."""
        if number < len(self.replies):
            return self.replies[number]
        return ScriptedReply(
            text=f"The script is used up: it has {len(self.replies)} replies, all given before."
        )


def parse_script(text: str) -> Script:
    """Return the script that a JSON or YAML text describes.

    Raises:
        ScriptError: not JSON or YAML, of another shape, or with a value that canonical JSON has no
            form for, such as a number with a fraction.
    """
    try:
        script = Script.model_validate(_decode(text))
        _ = script.canonical_text
    except ValidationError as error:
        first = error.errors(include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ScriptError(where, first["msg"]) from error
    except CanonicalFormError as error:
        raise ScriptError(error.where, f"{error.problem}, which has no exact form") from error
    return script


def _decode(text: str) -> object:
    """Decode JSON first: YAML reads some of its escapes otherwise."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return _decode_yaml(text)


def _decode_yaml(text: str) -> object:
    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ScriptError("", f"neither JSON nor YAML: {error}") from error
