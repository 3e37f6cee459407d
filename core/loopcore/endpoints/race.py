"""A staggered race between connection attempts (RFC 8305, "happy eyeballs", section 5).

The first attempt starts at once, each further one when the previous one has failed or `delay` seconds have
passed. The first to succeed wins; the others are cancelled.

Every socket is either returned or closed. A failed attempt closes its own; the winner's is returned; the sockets of
attempts that succeed together with the winner, or while the race is being cancelled, are closed by a callback on the
attempt's task, which runs however the race itself ends. This is why `asyncio.staggered.staggered_race` is not used:
there, a race that is cancelled in the very tick in which an attempt succeeds leaks the descriptor, and an attempt's
unexpected error is swallowed.

Thread: the loop's own.
"""

import asyncio
import socket
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any, TypeAlias

Attempt: TypeAlias = Callable[[], Coroutine[Any, Any, socket.socket]]
"""Connects to one address: returns the socket, or raises OSError and leaves nothing open."""

_Task: TypeAlias = asyncio.Future[socket.socket]


async def race(attempts: Sequence[Attempt], delay: float) -> socket.socket | None:
    """Return the winner's socket, or None if every attempt failed with an OSError.

    If no attempt has won, any other error of an attempt is raised.
    """
    loop = asyncio.get_running_loop()
    tasks: list[_Task] = []
    winner: _Task | None = None
    try:
        for position, attempt in enumerate(attempts, start=1):
            tasks.append(loop.create_task(attempt()))
            winner = await _next_winner(tasks, loop.time() + delay if position < len(attempts) else None)
            if winner is not None:
                break
    except BaseException:
        await _dismiss(tasks)
        raise
    if winner is None:
        _raise_unexpected(tasks)
        return None
    try:
        await _dismiss(task for task in tasks if task is not winner)
    except BaseException:
        winner.result().close()
        raise
    return winner.result()


async def _next_winner(tasks: Sequence[_Task], deadline: float | None) -> _Task | None:
    """Wait until a task has won, the newest has failed, or the deadline has passed; without one, until all failed."""
    while True:
        winner = _winner_among(tasks)
        running = [task for task in tasks if not task.done()]
        if winner is not None or not running or (deadline is not None and tasks[-1].done()):
            return winner
        timeout = None if deadline is None else max(0.0, deadline - asyncio.get_running_loop().time())
        done, _ = await asyncio.wait(running, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        if not done:
            return None


def _winner_among(tasks: Iterable[_Task]) -> _Task | None:
    for task in tasks:
        if task.done() and not task.cancelled() and task.exception() is None:
            return task
    return None


async def _dismiss(tasks: Iterable[_Task]) -> None:
    """Cancel the running tasks, wait until they have ended, and close the sockets that any of them has connected.

    If this is cancelled, it stops waiting; the sockets are closed all the same.
    """
    running: list[_Task] = []
    for task in tasks:
        if task.done():
            _close_result(task)
        else:
            task.add_done_callback(_close_result)
            task.cancel()
            running.append(task)
    if running:
        await asyncio.wait(running)


def _close_result(task: _Task) -> None:
    if not task.cancelled() and task.exception() is None:
        task.result().close()


def _raise_unexpected(tasks: Iterable[_Task]) -> None:
    for task in tasks:
        if task.cancelled():
            raise asyncio.CancelledError
        exception = task.exception()
        if exception is not None and not isinstance(exception, OSError):
            raise exception
