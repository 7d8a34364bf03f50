"""The JSON Schema of the policy file, for editors; `policy.schema.json` is what this makes.

After a change of the models, print `schema_text()` into policies/policy.schema.json; a test
compares them.
"""

from __future__ import annotations

import json

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from policies.document import Document

SCHEMA_ID = "https://json-schema.org/draft/2020-12/schema"


class _WrittenOnly(GenerateJsonSchema):
    """Leaves null and defaults out: a key is written with a value, or it is not written."""

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])


def schema_text() -> str:
    """Return the schema as the text of its file."""
    schema = Document.model_json_schema(schema_generator=_WrittenOnly)
    titled = {"$schema": SCHEMA_ID, **schema, "title": "Forkyard policy"}
    return json.dumps(titled, indent=2, ensure_ascii=False) + "\n"
