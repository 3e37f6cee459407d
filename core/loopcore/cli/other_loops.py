"""Notice a program that runs on another loop than loopcore's, and say so when it ends.

asyncio exports `_set_running_loop` for the authors of event loops. Every loop calls it when it begins to run, asyncio's
and those written in C or Rust alike. `loopcore run` replaces it by a function that notes the class of the loop and
calls it: two calls for each run of a loop (docs/adr/0015).

uvicorn chooses between asyncio's loop and uvloop's, whatever the default of asyncio is. Its option `--loop`, or the
variable UVICORN_LOOP, names a function that makes the loop.
"""

import asyncio
import atexit
import importlib
import os
import sys
from asyncio import events
from typing import Any, Final

from loopcore.cli.output import warn
from loopcore.loop import EventLoop

FACTORY: Final = "loopcore:new_event_loop"
UVICORN: Final = "uvicorn"
UVICORN_VARIABLE: Final = "UVICORN_LOOP"


class Watch:
    """The classes of the loops that have run in this process. Thread: any."""

    def __init__(self) -> None:
        self.others: dict[type, None] = {}
        self.ours = False
        self._set: Any = events._set_running_loop

    def set_running_loop(self, loop: Any) -> None:
        """asyncio's function of that name; notes the loop."""
        self._set(loop)
        if isinstance(loop, EventLoop):
            self.ours = True
        elif loop is not None:
            self.others[type(loop)] = None

    def text(self) -> str:
        """Return the warning; an empty string if no other loop has run."""
        if not self.others:
            return ""
        names = " and ".join(f"{module_of(kind)}'s {kind.__name__.lstrip('_')}" for kind in self.others)
        what = "part of the program" if self.ours else "the program"
        advice = "; ".join(dict.fromkeys(map(advice_for, self.others)))
        return f"{what} ran on {names}, not on loopcore; {advice}; --allow-other-loops turns this warning off"


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


def watch_loops() -> None:
    """Note the loops that run from now on; warn on standard error when this process ends if one is not loopcore's."""
    watch, process = Watch(), os.getpid()
    asyncio._set_running_loop = events._set_running_loop = watch.set_running_loop

    def finish() -> None:
        text = watch.text()
        if text and os.getpid() == process:  # a forked child has its parent's functions
            warn(text)

    atexit.register(finish)


def choose_loop_of_uvicorn() -> None:
    """Make uvicorn, which is about to run, use loopcore unless its command line or UVICORN_LOOP names a loop."""
    try:
        config = importlib.import_module(UVICORN).Config
    except (ImportError, AttributeError):
        return
    if hasattr(config, "get_loop_factory"):  # 0.36; earlier versions take no factory
        os.environ.setdefault(UVICORN_VARIABLE, FACTORY)
