"""Wait for an engine that has gone away: a restart costs a sandbox, never a run."""

from __future__ import annotations

from dataclasses import dataclass

import structlog

from runner.application.services import Services
from runner.application.stopping import StopFlag
from sandbox import EngineUnavailableError

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class EnginePatience:
    """How long and how often a silent engine is asked for a sign of life."""

    seconds: float = 60.0
    """Longer than a restart with many containers (11 s was measured after a kill)."""
    first_pause_seconds: float = 0.25
    longest_pause_seconds: float = 4.0


def await_engine(services: Services, patience: EnginePatience, *, stop: StopFlag) -> None:
    """Return as soon as the engine answers.

    Raises:
        EngineUnavailableError: it does not in all that time.
        RunStoppedError: the run was told to stop meanwhile.
    """
    clock = services.clock
    since = clock.monotonic()
    pause = patience.first_pause_seconds
    while True:
        stop.check()
        try:
            services.host.check_engine()
        except EngineUnavailableError as error:
            waited = clock.monotonic() - since
            if waited >= patience.seconds:
                raise EngineUnavailableError(f"{error} (waited {waited:.0f} s)") from error
            log.warning("engine.silent", seconds=round(waited), problem=str(error))
        else:
            return
        stop.wait(pause)
        pause = min(2 * pause, patience.longest_pause_seconds)
