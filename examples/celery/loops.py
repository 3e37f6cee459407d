"""Coroutines as Celery tasks: a loop for each process of the pool prefork, for each thread of the pool threads.

    loops = Loops(lifespan)

    @app.task(soft_time_limit=30)
    @loops.task
    async def fetch(url: str) -> str: ...

The loop runs in the thread that Celery calls the task in, so `current_task`, `self.request` and `self.retry` work
inside the coroutine. In a child of the pool prefork it is made after the fork, by `worker_process_init`, and closed by
`worker_process_shutdown`. It runs only while a task does.

Celery ends a task by a signal whose handler raises an exception. In a running loop that exception would hit whatever
the loop happens to execute. So while a coroutine runs, the handlers cancel it instead, as asyncio.Runner does on
Ctrl-C, and Celery's exception is raised when the coroutine has ended, after its `finally` blocks.
"""

import asyncio
import functools
import inspect
import signal
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import Any, Generic, ParamSpec, TypeVar

from billiard.common import TERM_SIGNAL
from celery.exceptions import SoftTimeLimitExceeded
from celery.signals import worker_process_init, worker_process_shutdown, worker_shutdown

import loopcore

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


class Loop(Generic[T]):
    """A loop of this thread, and what `lifespan` yields on it. From the first line of `lifespan` to `close`."""

    def __init__(self, lifespan: Callable[[], AbstractAsyncContextManager[T]]) -> None:
        self._runner = loopcore.Runner()
        self.loop = self._runner.get_loop()
        self._opened: asyncio.Future[T] = self.loop.create_future()
        self._closing = asyncio.Event()
        self._life = self.loop.create_task(self._live(lifespan))
        try:
            self.loop.run_until_complete(asyncio.wait({self._opened, self._life}, return_when=asyncio.FIRST_COMPLETED))
            if self._life.done():
                self._life.result()
                raise RuntimeError("the lifespan of the loop ended at once; it has to `yield`")
        except BaseException:
            self._runner.close()
            raise
        self.shared = self._opened.result()

    async def _live(self, lifespan: Callable[[], AbstractAsyncContextManager[T]]) -> None:
        # Entered and left by one task, as task groups and anyio's cancel scopes need it.
        async with lifespan() as shared:
            self._opened.set_result(shared)
            await self._closing.wait()

    def close(self) -> None:
        """Leave `lifespan`, cancel what still runs, close the loop."""
        try:
            self._closing.set()
            self.loop.run_until_complete(self._life)
        finally:
            self._runner.close()


class Loops(Generic[T]):
    """The loops of a worker. `lifespan` is entered on each of them; `shared` is what it yields there."""

    def __init__(self, lifespan: Callable[[], AbstractAsyncContextManager[T]]) -> None:
        self._lifespan = lifespan
        self._forget()
        self._prefork = False
        worker_process_init.connect(self._start_in_child)
        worker_process_shutdown.connect(self.close)
        worker_shutdown.connect(self.close)  # the pools threads and solo have no children

    @property
    def shared(self) -> T:
        """What `lifespan` yielded on the loop of this thread."""
        return self._get().shared

    def task(self, function: Callable[P, Coroutine[Any, Any, R]]) -> Callable[P, R]:
        """Turn a coroutine function into the plain function that Celery calls; it stands below `@app.task`."""

        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            loop = self._get().loop
            if not self._prefork:
                return loop.run_until_complete(function(*args, **kwargs))
            with cancelled_by_signals(loop) as tasks:
                tasks.append(loop.create_task(function(*args, **kwargs)))
                return loop.run_until_complete(tasks[0])

        call.__signature__ = inspect.signature(function)  # Celery checks the arguments of a call by it
        return call

    def _get(self) -> Loop[T]:
        if not hasattr(self._here, "loop"):
            self._here.loop = Loop(self._lifespan)
            self._all.append(self._here.loop)
        found: Loop[T] = self._here.loop
        return found

    def _forget(self) -> None:
        self._here = threading.local()
        self._all: list[Loop[T]] = []

    def _start_in_child(self, **_: Any) -> None:
        self._forget()  # a loop is not used on both sides of a fork
        self._prefork = True
        self._get()

    def close(self, **_: Any) -> None:
        """Close all loops of this process, whose threads run no task any more. Celery's signals call it."""
        while self._all:
            self._all.pop().close()
        self._forget()


@contextmanager
def cancelled_by_signals(loop: asyncio.AbstractEventLoop) -> Iterator[list["asyncio.Task[Any]"]]:
    """Cancel the tasks of the list where Celery's handlers would raise, and raise afterwards.

    A soft time limit, and `revoke(id, terminate=True, signal="SIGUSR1")`: SoftTimeLimitExceeded. A coroutine that
    catches CancelledError and returns has a result instead. `revoke(id, terminate=True)`: SystemExit, which ends
    the process. Thread: the main one of a child.
    """
    tasks: list[asyncio.Task[Any]] = []
    received: set[int] = set()

    def interrupt(number: int, _: Any) -> None:
        if number not in received:  # Celery may send it twice, and a second cancellation would hit the `finally` blocks
            received.add(number)
            loop.call_soon_threadsafe(cancel)

    def cancel() -> None:
        for task in tasks:
            task.cancel()

    celerys = {number: signal.signal(number, interrupt) for number in (signal.SIGUSR1, TERM_SIGNAL)}
    try:
        yield tasks
    except asyncio.CancelledError as cancelled:
        if signal.SIGUSR1 in received:
            raise SoftTimeLimitExceeded from cancelled
        raise
    finally:
        for number, handler in celerys.items():
            signal.signal(number, handler)
        if TERM_SIGNAL in received:
            celerys[TERM_SIGNAL](TERM_SIGNAL, None)  # billiard's: sys.exit
