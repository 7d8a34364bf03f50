"""Embeds the script of a scripted agent, from its file or from the batch file itself."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path

from policies import CanonicalFormError, Json, canonical_json
from runner.adapters.batch_file.document import Document, Value
from runner.adapters.batch_file.document import Path as FieldPath
from runner.adapters.batch_file.entries import ScriptEntry
from runner.adapters.batch_file.faults import join_faults, list_faults
from runner.adapters.batch_file.reading import (
    UnusablePathError,
    read_document,
    resolve_beside,
)
from runner.domain.script import parse_script
from runner.errors import ScriptError


@dataclass(slots=True)
class ScriptReader:
    """Reads each script once."""

    document: Document
    """The batch file."""
    read_already: dict[Path, str] = field(default_factory=dict)

    def read(self, script: str | ScriptEntry, places: tuple[FieldPath, ...]) -> str:
        """Return the canonical JSON text of a script that stands at one of the places.

        Raises:
            BatchFileError: the script's file cannot be used, or a value has no canonical form.
        """
        if not isinstance(script, str):
            place = next(one for one in places if self.document.has(one))
            return _canonical(self.document, _value_at(self.document.value, place), place)
        path = self._resolve(script, places)
        if not path.is_file():
            raise self.document.problem(f"no file {str(path)!r}", *places)
        if path not in self.read_already:
            self.read_already[path] = _read_file(path)
        return self.read_already[path]

    def _resolve(self, script: str, places: tuple[FieldPath, ...]) -> Path:
        try:
            return resolve_beside(self.document.file, script)
        except UnusablePathError as error:
            raise self.document.problem(str(error), *places) from error


def _read_file(path: Path) -> str:
    document = read_document(path)
    faults = [*document.problems, *list_faults(document, ScriptEntry)]
    if faults:
        raise join_faults(faults)
    return _canonical(document, document.value, ())


def _value_at(value: Value, place: FieldPath) -> Value:
    for part in place:
        if isinstance(value, dict):
            value = value[str(part)]
        elif isinstance(value, tuple) and isinstance(part, int):
            value = value[part]
    return value


def _canonical(document: Document, value: Value, place: FieldPath) -> str:
    try:
        text = canonical_json(_to_json(document, value, place)).decode()
        return parse_script(text).canonical_text
    except (CanonicalFormError, ScriptError) as error:
        raise document.problem(str(error), place) from error


def _to_json(document: Document, value: Value, place: FieldPath) -> Json:
    if isinstance(value, Decimal):
        raise document.problem("a number with a point; write a whole number or text", place)
    if isinstance(value, dict):
        return {key: _to_json(document, one, (*place, key)) for key, one in value.items()}
    if isinstance(value, tuple):
        members = enumerate(value)
        return [_to_json(document, one, (*place, index)) for index, one in members]
    assert value is None or isinstance(value, (bool, int, str))  # noqa: S101  all that is left
    return value
