"""Make loopcore the default of asyncio in this process, with the requested backend and plugins.

The choice is stored in the environment (`LOOPCORE_BACKEND`, `LOOPCORE_PLUGINS`), so that it applies to every
loop of the process, however it is created, and to the processes it starts with `loopcore run`.

Up to Python 3.13 this sets asyncio's event loop policy. From 3.14 on policies are deprecated, and
`asyncio.run`, `asyncio.Runner` and `asyncio.new_event_loop` all call `asyncio.events.new_event_loop`:
that function is replaced instead.
"""

import asyncio
import os
import sys
from typing import NamedTuple

from loopcore.runner import new_event_loop
from loopcore.selection.discovery import choose_backend, find_plugins, make_plugins_ahead
from loopcore.selection.environment import read_settings


class Settings(NamedTuple):
    """The options of the command line; None and empty mean not given."""

    backend: str | None
    plugins: tuple[str, ...]
    debug: bool


def apply_settings(settings: Settings) -> None:
    """Check `settings` and apply them. An error now is one line; later it would be a traceback."""
    if settings.backend is None:
        choose_backend()
    else:
        choose_backend(settings.backend, asked=f"--backend {settings.backend}")
        os.environ["LOOPCORE_BACKEND"] = settings.backend
    for text in settings.plugins:
        find_plugins(text)
    if settings.plugins:
        os.environ["LOOPCORE_PLUGINS"] = ",".join(settings.plugins)
    read_settings()
    make_plugins_ahead()
    if settings.debug:
        os.environ["PYTHONASYNCIODEBUG"] = "1"
    become_default()


def become_default() -> None:
    """Make asyncio create loopcore's loops unless the program names another."""
    if sys.version_info < (3, 14):
        from loopcore.policy import EventLoopPolicy

        asyncio.set_event_loop_policy(EventLoopPolicy())
    else:
        asyncio.events.new_event_loop = new_event_loop
        asyncio.new_event_loop = new_event_loop
