"""What the simulation puts in the place of Python's functions, all of it."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from loopcore_backends.sim import calls, chance, clock, ordered, refusals, replacing, signals, sockets
from loopcore_backends.sim.collecting import collected_steadily
from loopcore_backends.sim.threads import calls as thread_calls
from loopcore_backends.sim.world import World


@contextmanager
def installed(world: World) -> Iterator[None]:
    """Let the program in the body of the `with` statement see `world` instead of the operating system."""
    parts: list[tuple[Any, str, object]] = []
    for module in (calls, chance, clock, ordered, refusals, signals, sockets, thread_calls):
        parts += module.replacements(world)
    parts.append((asyncio.events, "new_event_loop", world.loops.new))
    with replacing.installed(parts), collected_steadily():
        yield
