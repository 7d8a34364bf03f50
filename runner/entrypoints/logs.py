"""Sets up logging, once, for a whole process."""

from __future__ import annotations

import logging
from typing import TextIO

import structlog
from structlog.typing import WrappedLogger

from runner.entrypoints.terminal import follow_standard_error

LEVELS = ("debug", "info", "warning", "error")


def set_up_logs(level: str, *, file: TextIO | None = None) -> None:
    """Send events of this level and above to standard error, or to a file as JSON lines."""
    renderer: structlog.typing.Processor = (
        structlog.dev.ConsoleRenderer(colors=False, pad_event_to=0)
        if file is None
        else structlog.processors.JSONRenderer()
    )

    def make_logger(*_args: object) -> WrappedLogger:
        return structlog.PrintLogger(file or follow_standard_error())

    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(
            logging.getLevelNamesMapping()[level.upper()]
        ),
        logger_factory=make_logger,
        cache_logger_on_first_use=False,
    )
