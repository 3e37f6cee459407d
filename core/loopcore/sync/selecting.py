"""select: wait for the first of several things, and leave the others as if they had never been waited for.

    selected = await select(receiver.recv(), other.recv(), asyncio.sleep(5))
    match selected.branch: ...

**Operations**, returned by channels, wakers and join sets, do not run in tasks: all of them wait at once, and
only the winner is completed. The others have received and sent nothing.

**Other awaitables** run as tasks. The losers are cancelled, and have ended when `select` returns. A loser may finish
all the same, because it ended at the same moment or suppressed the cancellation. Then its error goes to the loop's
exception handler, or its result is in `selected.also`. If the winner raises there is no `selected`: the result is lost,
and a note on the winner's error reports it. Results are also lost if `select` is cancelled. So a task must not consume
values that must not be lost. A future or task that is passed in is cancelled like the others; pass
`asyncio.shield(task)` to keep it.

An operation is used once: RuntimeError is raised for one that was awaited already or is passed twice. If several are
ready, the first of them in the order of the arguments wins. The winner's value is reserved while the losers end, also
if tasks share a receiver. If `select` is cancelled, it has taken nothing, and its tasks have ended.
"""

import asyncio
from collections.abc import Awaitable
from reprlib import repr as shown
from typing import Any, Generic, NamedTuple, TypeVar, overload

from loopcore.runner import as_coroutine
from loopcore.sync.joining import wait_for_all
from loopcore.sync.waiting import Operation, Waiter, settle, withdraw

T = TypeVar("T")
T1 = TypeVar("T1")
T2 = TypeVar("T2")
T3 = TypeVar("T3")
T4 = TypeVar("T4")

__all__ = ["Selected", "select"]


class Selected(NamedTuple, Generic[T]):
    """The result of `select`."""

    branch: int
    """The index of the argument that won, from 0."""
    value: T
    also: tuple[tuple[int, Any], ...] = ()
    """Index and result of other tasks that finished, too."""


# No call matches two of these: if several match, mypy infers Any.
@overload
async def select(first: Awaitable[T], /) -> Selected[T]: ...


@overload
async def select(first: Awaitable[T1], second: Awaitable[T2], /) -> Selected[T1 | T2]: ...


@overload
async def select(first: Awaitable[T1], second: Awaitable[T2], third: Awaitable[T3], /) -> Selected[T1 | T2 | T3]: ...


@overload
async def select(
    first: Awaitable[T1], second: Awaitable[T2], third: Awaitable[T3], fourth: Awaitable[T4], /
) -> Selected[T1 | T2 | T3 | T4]: ...


@overload
async def select(
    first: Awaitable[T],
    second: Awaitable[T],
    third: Awaitable[T],
    fourth: Awaitable[T],
    fifth: Awaitable[T],
    /,
    *more: Awaitable[T],
) -> Selected[T]: ...


async def select(*awaitables: Awaitable[Any]) -> Selected[Any]:
    """Wait for the first of `awaitables`; return its index and result, or raise its exception.

    Raises ValueError without any, RuntimeError if the current task is among them.
    """
    if not awaitables:
        raise ValueError("select() needs at least one awaitable: without any it would wait forever")
    race = _Race(awaitables)
    del awaitables  # an error's traceback keeps this frame, which must not keep the error
    try:
        index = await race.winner()
        await race.dismiss(index)
        return Selected(index, race.take(index), race.also(index))
    except BaseException as error:
        race.note_results(error)
        raise
    finally:
        await race.end()


class _Race:
    """One `select`: waiters for its operations, futures for everything else."""

    __slots__ = ("_branches", "_futures", "_loop", "_waiters", "_wake", "_winner")

    def __init__(self, branches: "tuple[Any, ...]") -> None:
        self._branches = branches
        self._winner = -1
        self._loop = asyncio.get_running_loop()
        self._wake: asyncio.Future[None] = self._loop.create_future()
        self._waiters: dict[int, Waiter] = {}
        self._futures: dict[int, asyncio.Future[Any]] = {
            index: branch for index, branch in enumerate(branches) if asyncio.isfuture(branch)
        }

    async def winner(self) -> int:
        """Return the first branch that is ready, once one is."""
        self._take_over()
        index = self._enlist()
        if index is None:
            self._start()
        while index is None:
            await self._wake
            self._wake = self._loop.create_future()
            index = self._enlist()  # None if another task was faster
        return index

    def _take_over(self) -> None:
        """Take over all operations, even if one is refused: its error is enough, the others need not warn as well."""
        refusal: RuntimeError | None = None
        me = asyncio.current_task()
        for index, branch in enumerate(self._branches):
            if branch is me:
                del self._futures[index]  # which `end` would cancel and wait for
                refusal = refusal or RuntimeError("select() cannot wait for the task that calls it")
            elif isinstance(branch, Operation):
                try:
                    branch.take_over()
                except RuntimeError as error:
                    refusal = refusal or error
        if refusal is not None:
            try:
                raise refusal
            finally:
                del refusal  # its traceback refers to this frame

    def _enlist(self) -> int | None:
        for index, branch in enumerate(self._branches):
            if isinstance(branch, Operation):
                if index not in self._waiters:
                    self._waiters[index] = Waiter(branch.subject.lock, self._loop, self._wake)
                waiter = self._waiters[index]
                with branch.subject.lock:
                    waiter.wait_for(self._wake)
                    branch.subject.enlist(waiter)
                    if branch.subject.claim(waiter, branch.argument):
                        return index
            elif index in self._futures and self._futures[index].done():
                return index
        return None

    def _start(self) -> None:
        for index, branch in enumerate(self._branches):
            if not isinstance(branch, Operation):
                if index not in self._futures:
                    self._futures[index] = self._loop.create_task(as_coroutine(branch))
                self._futures[index].add_done_callback(self._note)

    def _note(self, future: "asyncio.Future[Any]") -> None:
        settle(self._wake)

    async def dismiss(self, winner: int) -> None:
        """Cancel the losers and wait until they have ended. The winner's value stays reserved meanwhile."""
        for index in list(self._waiters):
            if index != winner:
                self._withdraw(index)
        losers = [future for index, future in self._futures.items() if index != winner and not future.done()]
        for future in losers:
            future.cancel()
        if losers:
            await wait_for_all(losers)

    def take(self, winner: int) -> Any:
        """Complete the winner, which has a claim."""
        self._winner = winner
        if winner in self._futures:
            error = self._futures[winner].exception()
            if error is None:
                return self._futures[winner].result()
            try:
                raise error
            finally:
                del error
        branch = self._branches[winner]
        with branch.subject.lock:
            return branch.subject.complete(self._waiters.pop(winner), branch.argument)

    async def end(self) -> None:
        """Clean up everything, however far it came."""
        for index in list(self._waiters):
            self._withdraw(index)
        winner = self._futures.get(self._winner)
        losers = [future for future in self._futures.values() if future is not winner]
        for future in self._futures.values():
            future.remove_done_callback(self._note)
            future.cancel()
        for index, branch in enumerate(self._branches):
            if index not in self._futures and asyncio.iscoroutine(branch) and not isinstance(branch, Operation):
                branch.close()  # it never started
        # An error's traceback refers to this object, and futures refer to the error.
        self._branches = ()
        self._futures = {}
        try:
            if not all(future.done() for future in losers):
                await wait_for_all(losers)
        finally:
            for future in losers:
                self._report(future)
            losers.clear()

    def also(self, winner: int) -> "tuple[tuple[int, Any], ...]":
        """Return index and result of all other futures that have a result."""
        return tuple(
            [
                (index, future.result())
                for index, future in self._futures.items()
                if index != winner and not future.cancelled() and future.exception() is None
            ]
        )

    def note_results(self, error: BaseException) -> None:
        """Add a note to the winner's `error` for each result that is lost because of it."""
        if self._winner >= 0:  # otherwise the error is not the winner's
            for index, result in self.also(self._winner):
                error.add_note(f"select(): branch {index} had finished, too, and its result is lost: {shown(result)}")

    def _report(self, future: "asyncio.Future[Any]") -> None:
        """Report a loser's error to the loop: nothing else retrieves it."""
        if future.cancelled() or (error := future.exception()) is None:
            return
        context = {"message": "select(): a loser ended with an error", "exception": error, "future": future}
        try:
            self._loop.call_exception_handler(context)
        finally:
            del error, context  # the traceback may refer to this frame

    def _withdraw(self, index: int) -> None:
        waiter = self._waiters.pop(index, None)
        if waiter is not None:
            withdraw(self._branches[index].subject, waiter)
