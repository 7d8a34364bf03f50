"""The JSON Schema of batch files, for editors; batch.schema.json is its checked-in output."""

from __future__ import annotations

import json

from runner.adapters.batch_file.entries import BatchEntry


def make_batch_schema() -> str:
    """Return the schema as indented JSON text with a line end."""
    schema = BatchEntry.model_json_schema()
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = "Forkyard batch file"
    return json.dumps(_without_nulls(schema), indent=2, sort_keys=True) + "\n"


def _without_nulls(node: object) -> object:
    """Drop null as an alternative: a key is given or left out, never empty."""
    if isinstance(node, list):
        return [_without_nulls(member) for member in node]
    if not isinstance(node, dict):
        return node
    kept = {key: _without_nulls(member) for key, member in node.items() if key != "default"}
    choices = kept.get("anyOf")
    if isinstance(choices, list):
        real = [choice for choice in choices if choice != {"type": "null"}]
        if len(real) == 1 and isinstance(real[0], dict):
            del kept["anyOf"]
            return {**real[0], **kept}
        kept["anyOf"] = real
    return kept
