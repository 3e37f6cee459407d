"""Make loopcore the default of asyncio in this process, with the backend and plugins that were asked for.

The choice travels in the environment (`LOOPCORE_BACKEND`, `LOOPCORE_PLUGINS`), so that it holds for every
loop of the process, however it is made, and for the processes it starts with `loopcore run`.

Where asyncio has a policy (until Python 3.13) that is the door. From 3.14 on a policy only warns, and
`asyncio.run`, `asyncio.Runner` and `asyncio.new_event_loop` all call `asyncio.events.new_event_loop`:
that is replaced instead.
"""

import asyncio
import os
import sys
from typing import NamedTuple

from loopcore.discovery import choose_backend, find_plugins, make_plugins_ahead
from loopcore.environment import loop_settings, task_classes, thread_limit
from loopcore.runner import new_event_loop


class Settings(NamedTuple):
    """What the command line said; None and empty mean that it said nothing."""

    backend: str | None
    plugins: tuple[str, ...]
    debug: bool


def apply_settings(settings: Settings) -> None:
    """Put `settings` into force, after checking them: an error now is one line, later it is a traceback."""
    if settings.backend is None:
        choose_backend()
    else:
        choose_backend(settings.backend, asked=f"--backend {settings.backend}")
        os.environ["LOOPCORE_BACKEND"] = settings.backend
    for text in settings.plugins:
        find_plugins(text)
    if settings.plugins:
        os.environ["LOOPCORE_PLUGINS"] = ",".join(settings.plugins)
    task_classes()
    loop_settings()
    thread_limit()
    make_plugins_ahead()
    if settings.debug:
        os.environ["PYTHONASYNCIODEBUG"] = "1"
    become_default()


def become_default() -> None:
    """Let asyncio build loopcore's loops wherever the program does not name another."""
    if sys.version_info < (3, 14):
        from loopcore.policy import EventLoopPolicy

        asyncio.set_event_loop_policy(EventLoopPolicy())
    else:
        asyncio.events.new_event_loop = new_event_loop
        asyncio.new_event_loop = new_event_loop
