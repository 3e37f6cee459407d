"""What the simulation puts in the place of Python's functions, all of it."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from loopcore_backends.sim import calls, chance, clock, ordered, polling, refusals, replacing, signals, sockets
from loopcore_backends.sim.collecting import collected_steadily
from loopcore_backends.sim.files import calls as file_calls
from loopcore_backends.sim.threads import calls as thread_calls
from loopcore_backends.sim.world import World


@contextmanager
def installed(world: World) -> Iterator[None]:
    """Let the program in the body of the `with` statement see `world` instead of the operating system."""
    parts: list[tuple[Any, str, object]] = []
    for module in (calls, file_calls, chance, clock, ordered, polling, refusals, signals, sockets, thread_calls):
        parts += module.replacements(world)
    parts += _loops(world)
    with replacing.installed(parts), collected_steadily():
        yield


def _loops(world: World) -> list[tuple[Any, str, object]]:
    """What makes asyncio's runners, policies and loop classes give loops of `world`.

    A policy that the program has set before does not count: a simulation begins with the default one, so that no loop
    of another simulation is the current one.
    """
    events: Any = asyncio.events
    policy = getattr(events, "_BaseDefaultEventLoopPolicy", None) or events.BaseDefaultEventLoopPolicy
    return [
        (events, "new_event_loop", world.new_loop),
        (events, "_event_loop_policy", None),
        (policy, "new_event_loop", lambda self: world.new_loop()),
    ]
