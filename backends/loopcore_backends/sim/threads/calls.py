"""What stands in for Python's functions that start and join threads, for its locks, and for the jobs of pools."""

import _thread
import os
import queue
import threading
from collections.abc import Callable
from concurrent.futures import thread as pools
from contextvars import Context
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from loopcore_backends.sim.replacing import Replacement
from loopcore_backends.sim.threads.baton import SimThread, ThreadExit
from loopcore_backends.sim.threads.locks import Lock

if TYPE_CHECKING:
    from loopcore_backends.sim.world import World

DELAYS: Final = (0.0, 0.001, 0.02, 0.5)
"""Seconds by which the start of a thread or a job may be late, the usual value first."""
PROCESSORS: Final = 4
"""What `os.cpu_count` says: the size of pools must not depend on the machine that replays a run."""

_start_new_thread = _thread.start_new_thread
_start_joinable_thread: Any = getattr(_thread, "start_joinable_thread", None)  # Python 3.13
_join = threading.Thread.join
_work = pools._WorkItem.run
_ABSENT: Any = object()


def replacements(world: "World") -> list[Replacement]:
    """Return what stands in for threads and locks."""
    threads = world.threads

    def start_new_thread(function: Callable[..., object], args: Any, kwargs: Any = None, /) -> int:
        if not callable(function):
            raise TypeError("first arg must be callable")
        if not isinstance(args, tuple):
            raise TypeError("2nd arg must be a tuple")
        thread = new_thread(function)
        ident = _start_new_thread(thread.run, (function, args, kwargs or {}))
        begin(thread, function)
        return ident

    def start_joinable_thread(function: Callable[[], object], handle: Any = None, daemon: bool = True) -> Any:
        thread = new_thread(function)
        # To Python every simulated thread is a daemon: one that never ends must not keep the process from ending.
        handle = _start_joinable_thread(partial(thread.run, function, (), {}), handle=handle, daemon=True)
        thread.settle = handle.join
        begin(thread, function)
        return handle

    def new_thread(function: Callable[..., object]) -> SimThread:
        owner = _owner(function)
        name = f"thread {next(threads.numbers)}" if owner is None else owner.name
        return SimThread(threads, world.host, name)

    def begin(thread: SimThread, function: Callable[..., object]) -> None:
        owner = thread.owner = _owner(function)
        is_of_pool = owner is not None and getattr(owner, "_target", None) is pools._worker
        delay = 0.0 if is_of_pool else drawn_delay(f"start of {thread.name}")
        thread.wakes_at = world.now_ns + round(delay * 1e9)
        threads.add(thread)
        if owner is None:
            return
        if _start_joinable_thread is None:
            thread.settle = partial(_join, owner)
        # Thread.start returns when the new thread says that it has begun: it does that now, and stops before `run`.
        before = vars(owner).get("run", _ABSENT)

        def run() -> None:
            del owner.run
            if before is not _ABSENT:
                owner.run = before
            thread.park(bool, thread.wakes_at)
            try:
                owner.run()
            except (ThreadExit, SystemExit):
                raise
            except BaseException as exc:
                world.note("error", f"thread {owner.name}: {exc!r}")
                raise

        owner.run = run
        thread.step()

    def join(thread: threading.Thread, timeout: float | None = None) -> None:
        found = threads.of(thread)
        if found is not None and found is not threads.running:
            deadline = None if timeout is None else world.deadline_after(max(timeout, 0))
            if not world.block(found.is_over, deadline):
                return
        _join(thread, timeout)

    def drawn_delay(label: str) -> float:
        return DELAYS[world.tape.choose(len(DELAYS), f"delay: {label}")]

    def work(item: Any, *args: Any) -> None:
        name = _name(item.task[0] if hasattr(item, "task") else item.fn)
        delay = drawn_delay(f"job {name}")
        if delay:
            world.block(bool, world.now + delay)
        world.note("job", f"{name} begins")
        _work(item, *args)
        world.note("job", f"{name} ends")

    found: list[Replacement] = [
        (threading, "Lock", Lock),
        (threading, "_allocate_lock", Lock),
        (threading, "_CRLock", threading._PyRLock),  # type: ignore[attr-defined]
        (queue, "SimpleQueue", queue._PySimpleQueue),  # type: ignore[attr-defined]
        (threading.Thread, "join", join),
        (threading, "_counter", threads.numbers.__next__),
        (pools.ThreadPoolExecutor, "_counter", threads.pool_numbers.__next__),
        (pools._WorkItem, "run", work),
        (os, "cpu_count", lambda: PROCESSORS),
        (os, "process_cpu_count", lambda: PROCESSORS),
        (_thread, "start_new_thread", start_new_thread),
        (_thread, "start_new", start_new_thread),
    ]
    if _start_joinable_thread is not None:
        found.append((_thread, "start_joinable_thread", start_joinable_thread))
    return [each for each in found if hasattr(each[0], each[1])]


def _owner(function: Callable[..., object]) -> Any:
    """Return the `threading.Thread` that starts with `function`, None if there is none."""
    owner = getattr(function, "__self__", None)
    return owner if isinstance(owner, threading.Thread) else None


def _name(function: Any) -> str:
    """Return the name of a job: of the function inside those that call it in a context, or with arguments."""
    while isinstance(function, partial):
        is_in_context = isinstance(getattr(function.func, "__self__", None), Context) and function.args
        function = function.args[0] if is_in_context else function.func
    return str(getattr(function, "__qualname__", type(function).__qualname__))
