"""Sets up logging, once, for a whole process."""

from __future__ import annotations

import logging
from typing import TextIO

import structlog
from structlog.typing import EventDict, WrappedLogger

from runner.domain.visible import show_line
from runner.entrypoints.terminal import follow_standard_error

VALUE_CHARACTERS = 2000
"""How much of one value a line on standard error shows."""

LEVELS = ("debug", "info", "warning", "error")


def set_up_logs(level: str, *, file: TextIO | None = None) -> None:
    """Send events of this level and above to standard error, or to a file as JSON lines."""
    renderers: list[structlog.typing.Processor] = [structlog.processors.JSONRenderer()]
    if file is None:
        renderers = [_show_values, structlog.dev.ConsoleRenderer(colors=False, pad_event_to=0)]

    def make_logger(*_args: object) -> WrappedLogger:
        return structlog.PrintLogger(file or follow_standard_error())

    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            *renderers,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(
            logging.getLevelNamesMapping()[level.upper()]
        ),
        logger_factory=make_logger,
        cache_logger_on_first_use=False,
    )


def _show_values(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Make each text one visible line: reasons quote what agents wrote; tracebacks are ours."""
    return {
        name: show_line(value, VALUE_CHARACTERS)
        if isinstance(value, str) and name != "exception"
        else value
        for name, value in event.items()
    }
