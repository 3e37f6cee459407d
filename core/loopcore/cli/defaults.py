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
from collections.abc import Collection
from typing import NamedTuple

from loopcore.cli.output import warn
from loopcore.errors import UsageError
from loopcore.runner import new_event_loop
from loopcore.selection.discovery import PLUGINS, choose_backend, find_plugins, make_plugins_ahead
from loopcore.selection.environment import OTHER_LOOPS_VARIABLE, read_settings, unknown_variables


class Settings(NamedTuple):
    """The options of the command line; None and empty mean not given."""

    backend: str | None
    plugins: tuple[str, ...]
    debug: bool
    allow_other_loops: bool


def apply_settings(settings: Settings, *, everything: bool = True) -> None:
    """Check `settings` and set the environment variables that they stand for.

    An error now is one line; in the program it would be a traceback. `everything` also checks the variables that the
    user has set, and makes the plugins for the first loop of this process.
    """
    if settings.backend is not None:
        choose_backend(settings.backend, asked=f"--backend {shown(settings.backend)}")
        os.environ["LOOPCORE_BACKEND"] = settings.backend
    elif everything:
        choose_backend()
    for text in settings.plugins:
        _check_plugin(text)
    if settings.plugins:
        together = ",".join(settings.plugins)
        _check_plugin(together)
        os.environ["LOOPCORE_PLUGINS"] = together
    if settings.allow_other_loops:
        os.environ[OTHER_LOOPS_VARIABLE] = "yes"
    if settings.debug:
        os.environ["PYTHONASYNCIODEBUG"] = "1"
    if everything:
        for text in unknown_variables():
            warn(text)
        read_settings()
        try:
            make_plugins_ahead()
        except UsageError as exc:
            raise UsageError(_as_typed(exc, settings.plugins)) from exc.__cause__


def _check_plugin(text: str) -> None:
    try:
        found = find_plugins(text)
    except UsageError as exc:
        if _is_code(text):
            raise UsageError(
                f"--plugin takes the name of an installed plugin (see loopcore plugins), not a module or a file "
                f"such as {shown(text)}; a plugin gets its name from an entry point in the group {PLUGINS.group!r}"
            ) from None
        typed = _as_typed(exc, text)
        if typed == str(exc):
            typed = f"--plugin {shown(text)}: {exc}"
        raise UsageError(typed) from exc.__cause__
    if not found:
        raise UsageError(f"--plugin {shown(text)} names no plugin; see loopcore plugins, or leave the option out")


def _is_code(text: str) -> bool:
    """Return whether `text` looks like MODULE:CLASS or a file, and not like a plugin."""
    name, colon, rest = text.partition(":")
    return not PLUGINS.declarations(name) and (name.endswith(".py") or "/" in name or bool(colon and "=" not in rest))


def _as_typed(error: UsageError, plugins: Collection[str]) -> str:
    """Return the text of `error`; if it begins with "plugin 'NAME'", as the user typed that, unless no option was."""
    text = str(error)
    return "--" + text.replace("'", "", 2) if plugins and text.startswith("plugin '") else text


def shown(text: str) -> str:
    """Return the value of an option as the user typed it, in quotes where it would be hard to see."""
    return text if text and text.strip(" ,:") == text and text.isprintable() else repr(text)


def become_default() -> None:
    """Make asyncio create loopcore's loops unless the program names another."""
    if sys.version_info < (3, 14):
        from loopcore.policy import EventLoopPolicy

        asyncio.set_event_loop_policy(EventLoopPolicy())
    else:
        asyncio.events.new_event_loop = new_event_loop
        asyncio.new_event_loop = new_event_loop
