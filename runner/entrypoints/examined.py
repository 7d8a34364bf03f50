"""What `doctor` answers."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from policies import Json
from runner.application.examine_host import Examination
from runner.application.report import SCHEMA
from runner.entrypoints.exit_codes import ExitCode


@dataclass(frozen=True, slots=True)
class Examined:
    """An engine, a host, and the guards of a policy."""

    examination: Examination

    @property
    def exit_code(self) -> int:
        """1 when a guard failed, 3 when something is missing, 0 when all guards hold."""
        if self.examination.failed:
            return ExitCode.NOT_AS_WANTED
        return ExitCode.MISSING if self.examination.lacking else ExitCode.AS_WANTED

    def to_json(self) -> dict[str, Json]:
        """Return the object of `doctor`."""
        found = self.examination
        return {
            "schema": SCHEMA,
            "policy": found.policy,
            "engine": None if found.engine is None else _listed(asdict(found.engine)),
            "host": _listed(asdict(found.host)),
            "images": [
                {"name": one.name, "image_id": one.image_id or None} for one in found.images
            ],
            "lacks": [{"what": one.what, "reason": one.reason} for one in found.lacks],
            "untested": list(found.untested),
            "root_needs": list(found.root_needs),
            "probe_limits": found.limits.to_json(),
            "guards": [
                {
                    "guard": one.guard,
                    "tries": one.tries,
                    "standing": one.standing.value,
                    "fact": one.fact,
                }
                for one in found.guards
            ],
        }


def _listed(fields: dict[str, Json]) -> dict[str, Json]:
    return {
        name: list(value) if isinstance(value, tuple) else value for name, value in fields.items()
    }
