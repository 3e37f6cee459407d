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


async def race(
    attempts: Sequence[Attempt],
    delay: float,
    *,
    create_task: Callable[[Coroutine[Any, Any, socket.socket]], _Task],
    time: Callable[[], float],
) -> socket.socket | None:
    """Return the winner's socket, or None if every attempt failed with an OSError.

    If no attempt has won, any other error of an attempt is raised.
    """
    tasks: list[_Task] = []
    winner: _Task | None = None
    try:
        for position, attempt in enumerate(attempts, start=1):
            newest = create_task(attempt())
            tasks.append(newest)
            if position < len(attempts):
                winner = await _winner_until_next(tasks, newest, time() + delay, time)
            else:
                winner = await _winner_at_last(tasks)
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


async def _winner_until_next(
    tasks: Sequence[_Task], newest: _Task, deadline: float, time: Callable[[], float]
) -> _Task | None:
    """Wait until a task has won, the newest has failed, or the deadline has passed."""
    while True:
        winner = _winner_among(tasks)
        if winner is not None or newest.done():
            return winner
        running = [task for task in tasks if not task.done()]
        timeout = max(0.0, deadline - time())
        done, _ = await asyncio.wait(running, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        if not done:
            return None


async def _winner_at_last(tasks: Sequence[_Task]) -> _Task | None:
    """Wait until a task has won or all have failed."""
    while True:
        winner = _winner_among(tasks)
        running = [task for task in tasks if not task.done()]
        if winner is not None or not running:
            return winner
        await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)


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
