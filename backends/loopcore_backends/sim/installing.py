"""What the simulation puts in the place of Python's functions, all of it."""

import asyncio
import copyreg
import operator
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from loopcore_backends.sim import calls, chance, clock, ordered, polling, refusals, replacing, signals, sockets
from loopcore_backends.sim.collecting import collected_steadily
from loopcore_backends.sim.files import calls as file_calls
from loopcore_backends.sim.threads import calls as thread_calls
from loopcore_backends.sim.world import World, the_world


class SelectorEventLoop(asyncio.SelectorEventLoop, metaclass=replacing.StandsFor):
    """asyncio.SelectorEventLoop: a call makes a loop of the simulation. A class that a program derives is refused."""

    _real = asyncio.SelectorEventLoop

    def __new__(cls, *args: Any) -> Any:
        return the_world().loops.new() if "_real" in vars(cls) else super().__new__(cls)


@contextmanager
def installed(world: World) -> Iterator[None]:
    """Let the program in the body of the `with` statement see `world` instead of the operating system."""
    parts: list[replacing.Replacement] = []
    for module in (calls, file_calls, chance, clock, ordered, polling, refusals, signals, sockets, thread_calls):
        parts += module.replacements(world)
    parts += _loops(world)
    # pickle looks functions up by their names, and so it does a stand-in
    parts.append((copyreg.dispatch_table, staticmethod, operator.attrgetter("__qualname__")))
    with replacing.installed(parts), collected_steadily():
        yield


def _loops(world: World) -> list[replacing.Replacement]:
    """What makes the runners, policies and loop classes of asyncio and loopcore give loops of `world`.

    A policy that the program has set before does not count: a simulation begins with the default one, so that no loop
    of another simulation is the current one.
    """
    events: Any = asyncio.events
    policy = getattr(events, "_BaseDefaultEventLoopPolicy", None) or events.BaseDefaultEventLoopPolicy
    home = sys.modules[SelectorEventLoop._real.__module__]
    names = [
        name for name in ("SelectorEventLoop", "EventLoop") if getattr(asyncio, name, None) is SelectorEventLoop._real
    ]
    return [
        *((module, name, SelectorEventLoop) for module in (asyncio, home) for name in names),
        (sys.modules["loopcore.runner"], "new_event_loop", world.loops.new),
        (events, "new_event_loop", world.loops.new),
        (events, "_event_loop_policy", None),
        (policy, "new_event_loop", lambda self: world.loops.new()),
    ]
