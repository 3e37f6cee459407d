"""Waiting: what every channel and lock of this package is made of.

An **Operation** is what `recv()` and `send()` return, and what a lock waits with: a coroutine that is one step of one
Subject. It takes effect when it is resumed, in the same step in which it returns its result, and at no other time. So
an operation that is cancelled, or whose task is, has done nothing: no value is lost between a channel and a task that
is no longer there.

A **Subject** is the thing that is waited for, seen from one side: the receiving end of a channel, its sending end, a
lock. Operations ask it four things, under its lock if it has one.

A **Waiter** stands for the suspended task. Who wakes it may reserve something for it (`granted`): the value that will
be there when it runs, the room for what it wants to send. A waiter that goes away passes on what was reserved for it,
so no wake-up is lost, and what comes between the wake and the step takes nothing away from who waited longer.

Works on every asyncio loop, for it uses nothing but `create_future` and `call_soon_threadsafe`.
"""

import warnings
from asyncio import AbstractEventLoop, Future, _get_running_loop, get_running_loop
from collections import OrderedDict
from collections.abc import Coroutine
from contextlib import nullcontext
from threading import RLock
from types import TracebackType
from typing import Any, Final, Protocol

PENDING: Final = type("Pending", (), {"__slots__": (), "__repr__": lambda self: "PENDING"})()
"""What a subject answers when it cannot be done yet. A value of its own: None may be sent through a channel."""

_PENDING = PENDING

try:
    import cython
except ImportError:
    from loopcore import _cython as cython

if cython.compiled:
    from cython.cimports.loopcore.native.stopping import stop_with
    from cython.cimports.loopcore.sync.waiting import answer_without_exceptions

_current_loop = _get_running_loop


class Waiter:
    """A suspended task, for whoever can let it go on. Several waiters may stand for one task (`select`)."""

    __slots__ = ("granted", "_loop", "_future", "_across_threads")

    def __init__(self, loop: AbstractEventLoop, future: "Future[None]") -> None:
        self.granted: bool = False
        """Whether what it waits for is reserved for it."""
        self._loop: Any = loop
        self._future: Any = future
        self._across_threads: bool = False

    def wait_for(self, future: "Future[None]") -> None:
        """Have the task wait with another future, of the same loop: it was woken, and somebody else was quicker."""
        self._future = future

    def wake(self) -> bool:
        """Let the task go on; False if it will not run any more, because it was cancelled or its loop closed."""
        if self._future.done():
            return not self._future.cancelled()  # it goes on already: another waiter of it was woken
        if not self._across_threads or _current_loop() is self._loop:
            self._future.set_result(None)
            return True
        return self.call()

    def call(self) -> bool:
        """Have the loop let the task go on; False if the loop is closed. Also from a signal handler.

        A handler must not do it itself: it may have interrupted the task just when it begins to wait for the future.
        """
        try:
            self._loop.call_soon_threadsafe(settle, self._future)
        except RuntimeError:  # the loop was closed
            return False
        return True


def settle(future: "Future[None]") -> None:
    """Complete `future`, unless it was cancelled or completed meanwhile."""
    if not future.done():
        future.set_result(None)


class Subject:
    """One side of something that can be waited for. The methods are called by operations, under `lock`.

    A subject without a lock is of one thread and, once somebody has waited for it, of one loop.
    """

    __slots__ = ("lock", "loop")

    def __init__(self, lock: "RLock | None") -> None:
        self.lock: Any = lock
        self.loop: Any = None

    def attempt(self, argument: Any) -> Any:
        """Do it now, and return the result, or PENDING if it must be waited for."""
        raise NotImplementedError

    def enlist(self, waiter: Waiter) -> bool:
        """Have `waiter` woken when it is worth to try again; True if that is now. Done again, it keeps its place."""
        raise NotImplementedError

    def complete(self, waiter: Waiter, argument: Any) -> Any:
        """Do it for `waiter`, which was woken and is enlisted no more whatever happens. Return as `attempt`."""
        raise NotImplementedError

    def withdraw(self, waiter: Waiter) -> None:
        """Forget `waiter`, and pass on what was reserved for it."""
        raise NotImplementedError

    def claim(self, waiter: Waiter, argument: Any) -> bool:
        """Tell whether `complete` would do it now, for `waiter`, which is enlisted; if so, keep it so.

        From then on `complete` does not answer PENDING to `waiter`, whoever else comes meanwhile. `withdraw` gives
        the claim up, and then nothing has been done.
        """
        raise NotImplementedError


class Operation:
    """One use of a subject, once: a coroutine. It takes effect when it returns, and not at all if it is cancelled."""

    __slots__ = ("subject", "argument", "_waiter", "_is_over", "__weakref__")

    def __init__(self, subject: Subject, argument: Any = None) -> None:
        self.subject: Subject = subject
        self.argument: Any = argument
        self._waiter: Waiter | None = None
        self._is_over: bool = False

    def __await__(self) -> "Operation":
        return self

    def __next__(self) -> Any:
        outcome = self._outcome()
        if outcome is _PENDING:
            return self._suspension()
        if cython.compiled:
            stop_with(outcome)
            raise StopIteration
        raise StopIteration(outcome)

    def send(self, value: Any) -> Any:
        """Go on; what tasks call. `value` has no meaning."""
        return self.__next__()

    def throw(self, kind: Any, value: Any = None, traceback: "TracebackType | None" = None) -> Any:
        """Give up, and raise the error in the task that waits. What tasks call when they are cancelled."""
        self.close()
        error = value if value is not None else kind
        if isinstance(error, type):
            error = error()
        if traceback is not None:
            error = error.with_traceback(traceback)
        raise error

    def close(self) -> None:
        """Give up."""
        self._is_over = True
        waiter = self._waiter
        if waiter is not None:
            self._waiter = None
            withdraw(self.subject, waiter)

    def __del__(self) -> None:
        # A task that is dropped while it waits closes its coroutine only if that is a function's.
        if self._waiter is not None:
            self.close()
        elif not self._is_over:
            text = (
                f"an operation of loopcore.sync ({type(self.subject).__name__}) was never awaited: it has done nothing"
            )
            warnings.warn(text, RuntimeWarning, stacklevel=1 if cython.compiled else 2, source=self)

    def take_over(self) -> None:
        """Leave it to the caller to ask the subject. Raises RuntimeError if it was awaited already, or is."""
        if self._is_over or self._waiter is not None:
            raise RuntimeError("cannot reuse what has been awaited already: call the method again")
        self._is_over = True

    def _outcome(self) -> Any:
        """Return the result, or PENDING with a waiter enlisted."""
        if self.subject.lock is None:
            return self._advance()
        with self.subject.lock:
            return self._advance()

    def _suspension(self) -> Any:
        """Return what a task takes as the wish to wait."""
        future = self._waiter._future  # type: ignore[union-attr]
        future._asyncio_future_blocking = True
        return future

    def _advance(self) -> Any:
        if self._is_over:
            raise RuntimeError("cannot reuse what has been awaited already: call the method again")
        waiter = self._waiter
        if waiter is not None and not waiter._future.done():
            raise RuntimeError("this is being awaited already: call the method again for each task")
        self._is_over = True  # also if something raises
        if waiter is None:
            outcome = self.subject.attempt(self.argument)
        else:
            self._waiter = None
            outcome = self.subject.complete(waiter, self.argument)
        while outcome is _PENDING:
            waiter = make_waiter(self.subject)
            if not self.subject.enlist(waiter):
                self._waiter = waiter
                self._is_over = False
                break
            outcome = self.subject.complete(waiter, self.argument)
        return outcome


def operate(subject: Subject, argument: Any = None) -> "Coroutine[Any, Any, Any]":
    """Return one use of `subject`: all that `collections.abc.Coroutine` asks for, so a task takes it as well."""
    return Operation(subject, argument)  # type: ignore[return-value]


def make_waiter(subject: Subject) -> Waiter:
    """Return a waiter for the current task. Raises RuntimeError without a running loop, or with a wrong one."""
    loop = get_running_loop()
    return adopt(subject, Waiter(loop, loop.create_future()))


def adopt(subject: Subject, waiter: Waiter) -> Waiter:
    """Return `waiter`, fit to wait for `subject`."""
    if subject.lock is not None:
        waiter._across_threads = True
    elif subject.loop is not waiter._loop:
        if subject.loop is not None and not subject.loop.is_closed():
            raise RuntimeError(
                "this is being waited for in another event loop; make it with threadsafe=True to use it in several"
            )
        subject.loop = waiter._loop
    return waiter


def attempt(subject: Subject, argument: Any) -> Any:
    """Do it now and return the result, or PENDING."""
    if subject.lock is None:
        return subject.attempt(argument)
    with subject.lock:
        return subject.attempt(argument)


def withdraw(subject: Subject, waiter: Waiter) -> None:
    """Forget `waiter`, from outside."""
    if subject.lock is None:
        subject.withdraw(waiter)
    else:
        with subject.lock:
            subject.withdraw(waiter)


if cython.compiled:
    answer_without_exceptions()


def new_lock(threadsafe: bool) -> "RLock | None":
    """Return what guards a subject that several threads use.

    Reentrant, because a value may be destroyed under it, and what its finalizer sends must not wait for ourselves.
    """
    return RLock() if threadsafe else None


class Guarded(Protocol):
    """What has a lock, or None where one thread uses it."""

    lock: Any


def guard(guarded: Guarded) -> Any:
    """Return the context in which `guarded` may be touched."""
    return _UNGUARDED if guarded.lock is None else guarded.lock


_UNGUARDED = nullcontext()


class Crowd:
    """Waiters that are woken all at once, and then look for themselves."""

    __slots__ = ("_waiters",)

    def __init__(self) -> None:
        self._waiters: Any = {}

    def __len__(self) -> int:
        return len(self._waiters)

    def enlist(self, waiter: Waiter) -> None:
        """Wake `waiter` next time."""
        self._waiters[waiter] = None

    def withdraw(self, waiter: Waiter) -> None:
        """Forget `waiter`; nothing happens if it was woken."""
        self._waiters.pop(waiter, None)

    def wake(self) -> None:
        """Wake everybody."""
        waiters = self._waiters
        if waiters:
            self._waiters = {}
            for waiter in waiters:
                waiter.wake()

    def call(self) -> None:
        """Wake everybody through their loops: also from a signal handler."""
        waiters = self._waiters
        self._waiters = {}
        for waiter in waiters:
            waiter.call()


class Permits:
    """So many of something, handed out first come first served.

    A permit that comes back goes to who waits longest, and stays reserved until that waiter runs or goes away; who
    comes meanwhile does not get it. So the order is that of the calls, and nobody starves.
    """

    __slots__ = ("free", "_waiters")

    def __init__(self, free: int) -> None:
        self.free: int = free
        """How many are neither taken nor reserved; 0 while anybody waits."""
        self._waiters: Any = OrderedDict()  # a queue from whose middle those who go away are taken at once

    def waiting(self) -> int:
        """Return how many wait, those left out for whom a permit is reserved."""
        return len(self._waiters)

    def take(self) -> bool:
        """Take a permit if one is free."""
        if self.free > 0:
            self.free -= 1
            return True
        return False

    def enlist(self, waiter: Waiter) -> bool:
        """Reserve a permit for `waiter`: now, which is True, or when its turn comes. It may have one already."""
        if waiter.granted or self.take():
            waiter.granted = True
            return True
        self._waiters[waiter] = None
        return False

    def give(self) -> None:
        """Give a permit back, or make a new one."""
        while self._waiters:
            waiter = self._waiters.popitem(last=False)[0]
            waiter.granted = True
            if waiter.wake():
                return
            waiter.granted = False
        self.free += 1

    def withdraw(self, waiter: Waiter) -> None:
        """Forget `waiter`; a permit reserved for it goes to the next."""
        if waiter.granted:
            waiter.granted = False
            self.give()
        else:
            self._waiters.pop(waiter, None)

    def wake_all(self) -> None:
        """Wake all who wait, with nothing reserved: there will be no more."""
        waiters = self._waiters
        self._waiters = OrderedDict()
        for waiter in waiters:
            waiter.wake()
