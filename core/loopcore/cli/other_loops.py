"""Notice a program that runs on another loop than loopcore's, and say so when that loop first runs.

asyncio exports `_set_running_loop` for the authors of event loops. Every loop calls it when it begins to run, asyncio's
and those written in C or Rust alike. `loopcore run` replaces it by a function that calls it and looks at the class of
the loop: two calls for each run of a loop (docs/adr/0015).

uvicorn chooses between asyncio's loop and uvloop's, whatever the default of asyncio is. Its option `--loop`, or the
variable UVICORN_LOOP, names a function that makes the loop.
"""

import asyncio
import importlib
import os
import sys
from asyncio import events
from collections.abc import Callable, Sequence
from typing import Final

from loopcore.cli.output import warn
from loopcore.loop import EventLoop

FACTORY: Final = "loopcore:new_event_loop"
UVICORN: Final = "uvicorn"
UVICORN_VARIABLE: Final = "UVICORN_LOOP"


class Watch:
    """Warns once, on standard error, when a loop that is not loopcore's runs in this process. Thread: any.

    `options` are the options of `loopcore run` that have no effect on such a loop, as the user typed them. The warning
    does not wait for the end of the program: a server usually ends by a signal.
    """

    def __init__(self, options: Sequence[str] = ()) -> None:
        self._options = options
        self._process = os.getpid()
        self._ours_has_run = False
        self._has_warned = False
        self._set: Callable[[asyncio.AbstractEventLoop | None], None] = events._set_running_loop

    def set_running_loop(self, loop: asyncio.AbstractEventLoop | None) -> None:
        """asyncio's function of that name; looks at the loop."""
        self._set(loop)
        if isinstance(loop, EventLoop):
            self._ours_has_run = True
        elif loop is not None and not self._has_warned and os.getpid() == self._process:  # not in a forked child
            self._has_warned = True
            warn(self._warning(type(loop)))

    def _warning(self, kind: type) -> str:
        what = "part of the program" if self._ours_has_run else "the program"
        name = f"{module_of(kind)}'s {kind.__name__.lstrip('_')}"
        verb = "has" if len(self._options) == 1 else "have"
        unused = f"{' and '.join(self._options)} {verb} no effect there; " if self._options else ""
        return (
            f"{what} runs on {name}, not on loopcore; {unused}{advice_for(kind)}; "
            "--allow-other-loops turns this warning off"
        )


def module_of(kind: type) -> str:
    """Return the package that a class of loops comes from."""
    return kind.__module__.partition(".")[0]


def advice_for(kind: type) -> str:
    """Return what to change so that the program runs on loopcore and not on a loop of this class."""
    if UVICORN in sys.modules:
        return f"start uvicorn with --loop {FACTORY}, or in a program uvicorn.run(..., loop={FACTORY!r})"
    module = module_of(kind)
    if hasattr(sys.modules.get(module), "install"):  # uvloop, winloop
        return f"write asyncio.run in place of {module}.run, and remove {module}.install()"
    return "where the program makes its loop, write loop_factory=loopcore.new_event_loop, or leave it to asyncio.run"


def watch_loops(options: Sequence[str] = ()) -> None:
    """Warn on standard error when a loop that is not loopcore's runs in this process; `options` as for `Watch`."""
    asyncio._set_running_loop = events._set_running_loop = Watch(options).set_running_loop


def choose_loop_of_uvicorn() -> None:
    """Make uvicorn, which is about to run, use loopcore unless its command line or UVICORN_LOOP names a loop."""
    try:
        config = importlib.import_module(UVICORN).Config
    except (ImportError, AttributeError):
        return
    if hasattr(config, "get_loop_factory"):  # 0.36; earlier versions take no factory
        os.environ.setdefault(UVICORN_VARIABLE, FACTORY)
