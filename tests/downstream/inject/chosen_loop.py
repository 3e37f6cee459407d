"""Make one loop the loop of a whole process, and write down which loops really run in it.

`install` puts a class behind asyncio's default policy, and in the place of `asyncio.SelectorEventLoop` (and, from
Python 3.13 on, `asyncio.EventLoop`): what a project makes through asyncio, it makes of the chosen loop. What it makes
by another name (`uvloop.new_event_loop()`) stays what it is.

A loop is written down when it begins to run, not when it is made: a line "family pid" in the file that
DOWNSTREAM_RECORD names, the family being the package that its class comes from. A line at a time, because
servers and workers are killed.
"""

import asyncio
import os
import warnings
import weakref
from asyncio import events
from typing import Any

FAMILIES = ("loopcore", "uvloop", "asyncio")


def install(name: str) -> None:
    """Make `name`, one of FAMILIES, the loop of this process. Raises ValueError for another name."""
    # First of all: uvloop keeps what it finds when it is imported.
    _write_down_running_loops(os.environ["DOWNSTREAM_RECORD"])
    if name == "asyncio":
        return
    replacement: Any = _class_of(name)
    replacement.__name__ = asyncio.SelectorEventLoop.__name__  # suites make names of tests of it
    asyncio.SelectorEventLoop = replacement  # type: ignore[misc]
    if hasattr(asyncio, "EventLoop"):
        asyncio.EventLoop = replacement
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of policies, from Python 3.14 on
        policy: Any = asyncio.DefaultEventLoopPolicy
    policy._loop_factory = replacement


def family(loop: object) -> str:
    """Return the package that the loop's class comes from: the nearest of FAMILIES, else its module."""
    packages = (ancestor.__module__.partition(".")[0] for ancestor in type(loop).__mro__)
    return next((package for package in packages if package in FAMILIES), type(loop).__module__)


def _class_of(name: str) -> type:
    # Classes, because projects derive from asyncio.SelectorEventLoop and ask for instances of it.
    if name == "loopcore":
        import loopcore

        class LoopcoreLoop(loopcore.EventLoop):  # type: ignore[misc]
            """loopcore's loop, with the signature of asyncio.SelectorEventLoop."""

            def __init__(self, selector: Any = None) -> None:
                super().__init__()

        return LoopcoreLoop
    if name == "uvloop":
        import uvloop

        class UvloopLoop(uvloop.Loop):  # type: ignore[misc]
            """uvloop's loop, with the signature of asyncio.SelectorEventLoop."""

            def __init__(self, selector: Any = None) -> None:
                super().__init__()

        return UvloopLoop
    raise ValueError(f"DOWNSTREAM_LOOP={name!r} is not one of {', '.join(FAMILIES)}")


def _write_down_running_loops(record: str) -> None:
    original = events._set_running_loop
    seen: weakref.WeakSet[Any] = weakref.WeakSet()

    def set_running_loop(loop: Any) -> None:
        if loop is not None and loop not in seen:
            seen.add(loop)
            # Opened each time: tests count descriptors, and children close those they inherit.
            with open(record, "a", encoding="ascii") as file:
                file.write(f"{family(loop)} {os.getpid()}\n")
        original(loop)

    asyncio._set_running_loop = events._set_running_loop = set_running_loop
