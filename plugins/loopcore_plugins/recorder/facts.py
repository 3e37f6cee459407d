"""Facts: what a dump has besides the records: the tasks that are alive, the stalls, and why it was written."""

import asyncio
import json
import os
import sys
import time
from itertools import islice
from typing import Any

import loopcore
from loopcore.hooks.observer import Entry
from loopcore_plugins._tasktree import Place, State, coroutine_stack, read_tasks, state_of
from loopcore_plugins.watchdog.stall import Stall

MOST_TASKS = 2000
"""Tasks of which a dump has the stack; looking at each takes some microseconds of the loop's time."""


def facts_of(
    loop: Any, reason: str, detail: str, stalls: list[dict[str, Any]], busy: list[dict[str, Any]], dropped: int
) -> bytes:
    """Return the JSON object for a dump that is written now. Thread: any."""
    return json.dumps(
        {
            "reason": reason,
            "detail": detail,
            "pid": os.getpid(),
            "python": sys.version.split()[0],
            "loopcore": loopcore.__version__,
            "backend": loop.backend.name,
            "program": sys.argv[0] if sys.argv else "",
            "at_ns": time.monotonic_ns(),
            "loop_clock_is_monotonic": abs(loop.time() - time.monotonic()) < 1.0,
            # The thread that has found a stall watches other loops, too: it does not wait for the one that is blocked.
            "tasks": read_tasks(loop, _tasks, _running_task, 0.0 if reason == "stall" else None),
            "stalls": stalls,
            "busy": busy,
            "dropped_labels": dropped,
        }
    ).encode()


def describe_stall(stall: Stall, number: int) -> dict[str, Any]:
    """Return a stall of the watchdog as an object for JSON, ended now if it is over."""
    holder = stall.holder
    return {
        "number": number,
        "ended_ns": time.monotonic_ns(),
        "seconds": stall.seconds,
        "cpu_seconds": stall.cpu_seconds,
        "cause": stall.cause,
        "stack": [_frame(place) for place in stall.stack],
        "task": None if stall.task is None else stall.task.name,
        "request": stall.request,
        "holder": None
        if holder is None
        else {
            "thread": holder.name,
            "place": None if holder.place is None else _frame(holder.place),
            "cpu_seconds": holder.cpu_seconds,
        },
    }


def identity_of(task: Any) -> int:
    """Return the identity by which records call `task`: that of its step, if they are two objects."""
    step = getattr(task, "_step", None)
    return id(step if isinstance(step, Entry) else task)


def _tasks(loop: Any) -> list[dict[str, Any]]:
    running = asyncio.current_task(loop)
    alive = (task for task in asyncio.all_tasks(loop) if not task.done())
    return [
        _task(task, state_of(task, task is running), coroutine_stack(task.get_coro()))
        for task in islice(alive, MOST_TASKS)
    ]


def _running_task(loop: Any) -> list[dict[str, Any]]:
    task = asyncio.current_task(loop)
    return [] if task is None else [_task(task, "running", ())]


def _task(task: Any, state: State, stack: tuple[Place, ...]) -> dict[str, Any]:
    coro = task.get_coro()
    return {
        "who": identity_of(task),
        "name": task.get_name(),
        "coroutine": getattr(coro, "__qualname__", type(coro).__qualname__),
        "state": state,
        "stack": [_frame(place) for place in stack],
    }


def _frame(place: Place) -> list[Any]:
    return [place.function, place.file, place.line]
