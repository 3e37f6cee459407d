"""JoinSet: tasks whose results are taken in the order in which the tasks end.

    async with JoinSet[Page]() as pages:
        for address in addresses:
            pages.spawn(fetch(address))
        async for task in pages:
            show(task.result())

Unlike in `asyncio.TaskGroup`, an error ends only its own task: `task.result()` raises it. Leaving the block cancels the
tasks that are still running, and waits until they have ended. A task whose exception is never retrieved reports it.

Thread: one thread and one loop.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Collection, Coroutine
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from loopcore.runner import as_coroutine
from loopcore.sync.binding import LoopBinding
from loopcore.sync.errors import Empty
from loopcore.sync.waiting import PENDING, Permits, Subject, Waiter, attempt, operate

T = TypeVar("T")

__all__ = ["JoinSet"]


class _Finished(Subject):
    """The finished and the running tasks."""

    __slots__ = ("found_empty", "present", "running", "tasks")

    def __init__(self) -> None:
        super().__init__(LoopBinding("JoinSet", "make one in each loop"))
        self.running: set[asyncio.Task[Any]] = set()
        self.tasks: deque[asyncio.Task[Any]] = deque()
        self.present = Permits(0)
        self.found_empty: set[Waiter] = set()
        """Waiters whose `select` was won by an empty set; tasks that are spawned since then come too late for it."""

    def note(self, task: "asyncio.Task[Any]") -> None:
        """Add `task`, which has ended, to the finished tasks."""
        self.running.discard(task)
        self.tasks.append(task)
        self.present.give()

    def attempt(self, argument: Any) -> Any:
        if self.present.take():
            return self.pop()
        self.check_more_will_come()
        return PENDING

    def enlist(self, waiter: Waiter) -> bool:
        return self.present.enlist(waiter)

    def complete(self, waiter: Waiter, argument: Any) -> Any:
        if waiter in self.found_empty:
            self.withdraw(waiter)
            raise Empty("all tasks had been joined")
        if waiter.granted:
            return self.pop()
        self.present.withdraw(waiter)
        self.check_more_will_come()
        return PENDING

    def withdraw(self, waiter: Waiter) -> None:
        self.found_empty.discard(waiter)
        self.present.withdraw(waiter)

    def claim(self, waiter: Waiter, argument: Any) -> bool:
        if not waiter.granted and not self.running and not self.tasks:
            self.found_empty.add(waiter)
        return waiter.granted or waiter in self.found_empty

    def pop(self) -> "asyncio.Task[Any]":
        """Remove and return the first finished task, which was reserved."""
        task = self.tasks.popleft()
        if not self.running and not self.tasks:
            self.present.wake_all()
        return task

    def check_more_will_come(self) -> None:
        """Raise Empty if all tasks have been joined."""
        if not self.running and not self.tasks:
            raise Empty("all tasks have been joined")


class JoinSet(Generic[T]):
    """Tasks, and their results in the order of completion. `len` counts the tasks that have not been joined."""

    __slots__ = ("__weakref__", "_finished")

    def __init__(self) -> None:
        self._finished = _Finished()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {len(self._finished.running)} running, {len(self._finished.tasks)} finished>"

    def __len__(self) -> int:
        return len(self._finished.running) + len(self._finished.tasks)

    def __bool__(self) -> bool:
        return True

    def spawn(self, awaitable: Awaitable[T], *, name: str | None = None) -> "asyncio.Task[T]":
        """Run `awaitable` as a task of the running loop, and return it."""
        with self._finished.lock:
            task: asyncio.Task[T] = asyncio.get_running_loop().create_task(as_coroutine(awaitable), name=name)
            self._finished.running.add(task)
            task.add_done_callback(self._finished.note)
            return task

    def join_next(self) -> Coroutine[Any, Any, "asyncio.Task[T]"]:
        """Wait for the next task to end, and return it; tasks are joined in the order in which they ended.

        Raises Empty if there are none. If it is cancelled, no task has been joined. Several callers take turns.
        """
        return operate(self._finished)

    def try_join_next(self) -> "asyncio.Task[T] | None":
        """Return a task that has ended, or None if none has. Raises Empty if there are none at all."""
        task: asyncio.Task[T] = attempt(self._finished, None)
        return None if task is PENDING else task

    def abort_all(self) -> None:
        """Cancel all running tasks. They can still be joined once they have ended."""
        for task in list(self._finished.running):
            task.cancel()

    async def shutdown(self) -> None:
        """Cancel all running tasks, wait until they have ended, and forget them.

        Raises RuntimeError in a task of the set, which would wait for its own end.
        """
        if asyncio.current_task() in self._finished.running:
            raise RuntimeError("a task of a JoinSet cannot wait for the end of the set")
        self.abort_all()
        await wait_for_all(self._finished.running)
        while self._finished.present.take():
            self._finished.pop()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> "asyncio.Task[T]":
        try:
            task: asyncio.Task[T] = await operate(self._finished)
        except Empty:
            raise StopAsyncIteration from None
        return task

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.shutdown()


async def wait_for_all(tasks: "Collection[asyncio.Future[Any]]") -> None:
    """Wait until all of `tasks` have ended, including tasks added meanwhile. If cancelled, cancel them and wait on.

    Each is cancelled once, as in a TaskGroup: two tasks that wait for each other would cancel each other for ever.
    """
    cancelled: asyncio.CancelledError | None = None
    cancelled_once: set[asyncio.Future[Any]] = set()
    while pending := {task for task in tasks if not task.done()}:
        try:
            await asyncio.wait(pending)
        except asyncio.CancelledError as error:
            cancelled = error
            for task in pending - cancelled_once:
                task.cancel()
            cancelled_once |= pending
    await asyncio.sleep(0)  # their callbacks have run, too
    if cancelled is not None:
        try:
            raise cancelled
        finally:
            del cancelled  # its traceback refers to this frame
