"""What every command gets: how to open the application, and where people's text goes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

import click
from rich.console import Console
from rich.text import Text

from runner.bootstrap import App, open_app
from runner.domain.visible import show_text
from runner.settings import Settings, load_settings


@dataclass(frozen=True, slots=True)
class Context:
    """One invocation of the program."""

    console: Console
    """Standard error: progress, never answers."""
    read_settings: Callable[[], Settings] = load_settings
    make_app: Callable[[Settings], AbstractContextManager[App]] = open_app

    @contextmanager
    def open(self) -> Iterator[App]:
        """Open the application with the settings of this process.

        Raises:
            MissingError, StoreError, SandboxError: as open_app.
        """
        with self.make_app(self.read_settings()) as app:
            yield app

    def say(self, line: str) -> None:
        """Print a line about long work."""
        self.console.print(Text(show_text(line)), soft_wrap=True)


pass_context = click.make_pass_decorator(Context)
