"""What a process holds, counted so that a leak of one object a cycle shows: objects, memory blocks, descriptors.

The collector is off meanwhile: what only it could free counts as leaked, because a server that serves a thousand
connections a second cannot wait for it.

- *objects*: those that the collector knows, by type. Nearly all are: extension types that refer to others too.
- *blocks*: what the interpreter has allocated and not freed, of any kind; bytes and numbers too, which the collector
  does not know. A dict that grows or a cache that fills adds one now and then, so this is held against the
  number of cycles, where the others must not grow at all.
- *descriptors*: /proc/self/fd, or nothing where there is none.
"""

import asyncio
import gc
import os
import sys
import threading
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NamedTuple

Cycle = Callable[[], Awaitable[None]]

WARM_UP = 5
"""Cycles before anything is counted: imports, caches, the first threads."""
ROUNDS = 20
"""Attempts to find a round without growth. What leaks grows in each; what is only late does not, nor do caches:
CPython keeps some freed objects of many types, 255 at most but for tuples."""

_DESCRIPTORS = Path("/proc/self/fd")


class Census(NamedTuple):
    """What was there at one moment."""

    objects: Counter[str]
    blocks: int
    descriptors: int


class Growth(NamedTuple):
    """What a number of cycles left behind."""

    cycles: int
    objects: dict[str, int]
    blocks: int
    descriptors: int

    def is_leak(self) -> bool:
        """Tell whether anything grew; of blocks, by one in two cycles or more."""
        return bool(self.objects) or self.descriptors != 0 or self.blocks >= self.cycles / 2


def count() -> Census:
    """Return what the process holds now."""
    _fill_free_lists()
    _forget_names()
    blocks = sys.getallocatedblocks()
    descriptors = len(os.listdir(_DESCRIPTORS)) if _DESCRIPTORS.is_dir() else 0
    # By name: a class that is made and dropped in a cycle has another identity each time.
    objects = Counter(f"{type(found).__module__}.{type(found).__qualname__}" for found in gc.get_objects())
    return Census(objects, blocks, descriptors)


async def soak(cycle: Cycle, cycles: int, rounds: int = ROUNDS) -> Growth:
    """Run `cycle` that often, and again while something grew; return the growth of the last round."""
    for _ in range(WARM_UP):
        await cycle()
    for _ in range(rounds):
        growth = await _round(cycle, cycles)
        if not growth.is_leak():
            break
    return growth


async def _round(cycle: Cycle, cycles: int) -> Growth:
    await _settle()
    before = count()
    before = count()  # while the second is made the first is there, as this one is while the last is made
    for _ in range(cycles):
        await cycle()
    await _settle()
    after = count()
    grown = {name: more for name in after.objects if (more := after.objects[name] - before.objects[name]) > 0}
    return Growth(cycles, grown, after.blocks - before.blocks, after.descriptors - before.descriptors)


def _fill_free_lists() -> None:
    """Have CPython keep as many freed tuples as it ever does, so that it keeps no more of them later.

    A tuple that was made from a generator goes to the list of another length than it came from, of 2000 a length.
    """
    for length in range(1, 21):
        list(map(tuple, [range(length)] * 2001))


def _forget_names() -> None:
    """Empty the interpreter's cache of attributes.

    An entry keeps the name that was looked up. A task that awaits a subclass of Future makes the name "result" anew
    each time (CPython 3.11's task_wakeup), and so fills 4096 of them.
    """
    clear = getattr(sys, "_clear_internal_caches", None) or sys._clear_type_cache
    clear()


async def _settle() -> None:
    """Wait until nothing of a cycle is on its way any more: tasks, callbacks, threads that are ending."""
    while asyncio.all_tasks() - {asyncio.current_task()}:
        await asyncio.sleep(0)
    for _ in range(10):
        await asyncio.sleep(1e-5)  # a wait of the backend each, and the proactor forgets a descriptor after eight
    for thread in threading.enumerate():
        if thread.name.startswith("loopcore_child"):
            thread.join()
