"""Waiting: the building blocks of every channel and lock in this package.

An **Operation** is the coroutine that `recv()` and `send()` return and that a lock waits with: one step of one
Subject. It takes effect when it is resumed, in the same step in which it returns its result, and at no other time. So
an operation that is cancelled, or whose task is cancelled, has done nothing: no value is lost between a channel and a
task that is gone.

A **Subject** is the object that is waited for, seen from one side: the receiving end of a channel, its sending end, a
lock. Operations call its methods under its lock. Its lock is a real one if several threads use the object; otherwise it
is a LoopBinding, which locks nothing, and refuses other loops.

A **Waiter** represents the suspended task. Waking it may reserve something for it (`granted`): a value, or the room for
the value that it wants to send. A waiter that is withdrawn passes its reservation on. So no wake-up is lost, and a task
that comes between the wake-up and the waiter's next step takes nothing away from tasks that have waited longer.

Works on every asyncio loop, because it uses only `create_future`, `call_soon_threadsafe` and `is_closed`.
"""

import warnings
from asyncio import AbstractEventLoop, Future, _get_running_loop, get_running_loop
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager, nullcontext
from threading import RLock
from types import TracebackType
from typing import Any, Final, NoReturn

from loopcore.kernel.exceptions import exception_to_throw
from loopcore.sync.binding import LoopBinding

PENDING: Final = type("Pending", (), {"__slots__": (), "__repr__": lambda self: "PENDING"})()
"""Returned by a subject if the operation has to wait. A separate object: None may be sent through a channel."""

_PENDING = PENDING

try:
    import cython
except ImportError:
    from loopcore import _cython as cython

if cython.compiled:
    from cython.cimports.loopcore._native.interpreter import stop_with
else:
    from loopcore._native.interpreter import stop_with

_CALLER: Final = 1 if cython.compiled else 2
"""The stack level of the code that drops an object, seen from `__del__`: a compiled one has no frame."""
_current_loop = _get_running_loop


class Waiter:
    """A suspended task, as seen by the code that wakes it. Several waiters may represent one task (`select`)."""

    __slots__ = ("granted", "_loop", "_future", "_across_threads")

    def __init__(self, lock: "RLock | LoopBinding", loop: AbstractEventLoop, future: "Future[None]") -> None:
        self.granted: bool = False
        """Whether the value or permit that it waits for is reserved for it."""
        self._loop: AbstractEventLoop = loop
        self._future: Future[None] = future
        self._across_threads: bool = not isinstance(lock, LoopBinding)

    def wait_for(self, future: "Future[None]") -> None:
        """Have the task wait with another future of the same loop: it was woken, but another task was faster."""
        self._future = future

    def wake(self) -> bool:
        """Resume the task; False if it surely will not run any more: it was cancelled, or its loop was closed.

        The future is used in its loop's thread only. A task of another loop that was cancelled a moment ago is not
        noticed here; it will withdraw its waiter, which passes the reservation on.
        """
        if self._across_threads and _current_loop() is not self._loop:
            return self.call()
        if self._future.done():
            # It resumes already, as another waiter of the task was woken, or its loop was closed before it could.
            return not self._future.cancelled() and not self._loop.is_closed()
        try:
            self._future.set_result(None)
        except RuntimeError:
            if not self._loop.is_closed():
                raise
            return False
        return True

    def call(self) -> bool:
        """Have the loop resume the task; False if the loop is closed. May be called from a signal handler.

        A handler must not complete the future itself: it may have interrupted the task just as it starts waiting.
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
    """One side of an object that can be waited for. Operations call its methods under `lock`, which all sides share."""

    __slots__ = ("lock",)

    def __init__(self, lock: "RLock | LoopBinding") -> None:
        self.lock: RLock | LoopBinding = lock

    def attempt(self, argument: Any) -> Any:
        """Perform the operation now and return its result, or return PENDING if it has to wait."""
        raise NotImplementedError

    def enlist(self, waiter: Waiter) -> bool:
        """Have `waiter` woken when a retry is worthwhile; True if that is now. A second call keeps its place.

        The state is looked at after the waiter has its place: a finalizer may have used the object since `attempt`.
        """
        raise NotImplementedError

    def complete(self, waiter: Waiter, argument: Any) -> Any:
        """Perform the operation for `waiter`, which was woken; it is not enlisted afterwards. Return as `attempt`."""
        raise NotImplementedError

    def withdraw(self, waiter: Waiter) -> None:
        """Remove `waiter`, and pass on its reservation."""
        raise NotImplementedError

    def claim(self, waiter: Waiter, argument: Any) -> bool:
        """Return whether `complete` would succeed now for `waiter`, which is enlisted; if so, ensure that it stays so.

        From then on `complete` does not return PENDING for `waiter`, whatever other tasks do. `withdraw` gives up the
        claim, and then the operation has had no effect.
        """
        raise NotImplementedError


class Operation:
    """A single use of a subject: a coroutine. It takes effect when it returns, and not at all if it is cancelled."""

    __slots__ = ("subject", "argument", "_waiter", "_is_over", "__weakref__")

    def __init__(self, subject: Subject, argument: Any = None) -> None:
        self.subject: Subject = subject
        self.argument: Any = argument
        self._waiter: Waiter | None = None
        self._is_over: bool = False

    def __await__(self) -> "Operation":
        return self

    def __iter__(self) -> "Operation":
        return self

    def __next__(self) -> Any:
        outcome = self._outcome()
        if outcome is _PENDING:
            return self._suspension()
        stop_with(outcome)
        raise StopIteration

    def send(self, value: object) -> Any:
        """Resume; called by tasks. `value` is ignored."""
        return self.__next__()

    def throw(self, kind: object, value: object = None, traceback: "TracebackType | None" = None) -> NoReturn:
        """Give up, and raise the error in the waiting task. Called by tasks that are cancelled."""
        error = exception_to_throw(kind, value, traceback)
        self.close()
        try:
            raise error
        finally:
            del error, kind, value, traceback  # this frame is part of the traceback: keeping them would make a cycle

    def close(self) -> None:
        """Give up."""
        self._is_over = True
        waiter = self._waiter
        if waiter is not None:
            self._waiter = None
            withdraw(self.subject, waiter)

    def __del__(self) -> None:
        # A task that is dropped while it waits closes its coroutine only if that is a native coroutine.
        if self._waiter is not None:
            self.close()
        elif not self._is_over:
            text = f"an operation of loopcore.sync ({type(self.subject).__name__}) was never awaited: it had no effect"
            warnings.warn(text, RuntimeWarning, stacklevel=_CALLER, source=self)

    def take_over(self) -> None:
        """Let the caller use the subject directly. Raises RuntimeError if it is being awaited or was awaited before."""
        if self._is_over or self._waiter is not None:
            raise RuntimeError("cannot reuse what has been awaited already: call the method again")
        self._is_over = True

    def _outcome(self) -> Any:
        """Return the result, or PENDING with a waiter enlisted."""
        lock = self.subject.lock
        if isinstance(lock, LoopBinding):
            try:
                cython.cast(LoopBinding, lock).check()
            except BaseException:
                self.close()
                raise
            return self._advance()
        with lock:
            return self._advance()

    def _suspension(self) -> "Future[None]":
        """Return the future, marked so that the task waits for it."""
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
    """Return an operation on `subject`. It has all methods of `collections.abc.Coroutine`, so tasks accept it."""
    return Operation(subject, argument)


def make_waiter(subject: Subject) -> Waiter:
    """Return a waiter for the current task. Raises RuntimeError without a running loop."""
    loop = get_running_loop()
    return Waiter(subject.lock, loop, loop.create_future())


def attempt(subject: Subject, argument: Any) -> Any:
    """Perform the operation now, under the lock, and return the result, or PENDING."""
    lock = subject.lock
    if isinstance(lock, LoopBinding):
        cython.cast(LoopBinding, lock).check()
        return subject.attempt(argument)
    with lock:
        return subject.attempt(argument)


def withdraw(subject: Subject, waiter: Waiter) -> None:
    """Remove `waiter`, under the lock. Any loop may run: a task that is dropped is finalized anywhere."""
    lock = subject.lock
    if isinstance(lock, LoopBinding):
        subject.withdraw(waiter)
        return
    with lock:
        subject.withdraw(waiter)


def release(lock: "RLock | LoopBinding", function: Callable[[], object]) -> None:
    """Call `function`, which releases what a closed coroutine held, under the lock. Any loop may run, as above."""
    if isinstance(lock, LoopBinding):
        cython.cast(LoopBinding, lock).release(function)
        return
    with lock:
        function()


def new_lock(threadsafe: bool, what: str = "channel") -> "RLock | LoopBinding":
    """Return the lock of an object that several threads use; otherwise what binds it to the first loop that uses it.

    Reentrant, because a value may be destroyed under it, and its finalizer may send to the same channel.
    """
    if threadsafe:
        return RLock()
    return LoopBinding(what, "create it with threadsafe=True to use it in several loops or threads")


def view(lock: "RLock | LoopBinding") -> AbstractContextManager[object]:
    """Return the context manager for looking at an object with this lock: a binding does not refuse other loops."""
    return _UNLOCKED if isinstance(lock, LoopBinding) else lock


_UNLOCKED = nullcontext()


class Crowd:
    """Waiters that are all woken at once, and then check for themselves."""

    __slots__ = ("_waiters",)

    def __init__(self) -> None:
        self._waiters: dict[Waiter, None] = {}

    def __len__(self) -> int:
        return len(self._waiters)

    def enlist(self, waiter: Waiter) -> None:
        """Wake `waiter` at the next `wake` or `call`."""
        self._waiters[waiter] = None

    def withdraw(self, waiter: Waiter) -> None:
        """Remove `waiter`; no effect if it was woken."""
        self._waiters.pop(waiter, None)

    def wake(self) -> None:
        """Wake all waiters."""
        # Emptied, not replaced: a handle that is dropped asks `__len__` in any thread, without the lock.
        if self._waiters:
            waiters = [*self._waiters]
            self._waiters.clear()
            for waiter in waiters:
                waiter.wake()

    def call(self) -> None:
        """Wake all waiters through their loops. May be called from a signal handler."""
        waiters = [*self._waiters]
        self._waiters.clear()
        for waiter in waiters:
            waiter.call()


class Permits:
    """A number of permits, handed out first come first served.

    A returned permit goes to the waiter that has waited longest, and stays reserved until that waiter runs or is
    withdrawn; a task that comes meanwhile does not get it. So permits are granted in the order of the calls, and no
    waiter starves.
    """

    __slots__ = ("free", "_waiters")

    def __init__(self, free: int) -> None:
        self.free: int = free
        """How many are neither taken nor reserved; 0 while any waiter waits."""
        # A queue with removal from the middle in constant time.
        self._waiters: OrderedDict[Waiter, None] = OrderedDict()

    def waiting(self) -> int:
        """Return how many waiters there are, not counting those with a reserved permit."""
        return len(self._waiters)

    def take(self) -> bool:
        """Take a permit if one is free."""
        if self.free > 0:
            self.free -= 1
            return True
        return False

    def enlist(self, waiter: Waiter) -> bool:
        """Reserve a permit for `waiter`: now, and return True, or when its turn comes. It may have one already."""
        if waiter.granted or self.take():
            waiter.granted = True
            return True
        self._waiters[waiter] = None
        return False

    def give(self) -> None:
        """Return a permit, or add a new one."""
        while self._waiters:
            waiter = self._waiters.popitem(last=False)[0]
            waiter.granted = True
            if waiter.wake():
                return
            waiter.granted = False
        self.free += 1

    def withdraw(self, waiter: Waiter) -> None:
        """Remove `waiter`; a permit reserved for it goes to the next."""
        if waiter.granted:
            waiter.granted = False
            self.give()
        else:
            self._waiters.pop(waiter, None)

    def wake_all(self) -> None:
        """Wake all waiters, with nothing reserved: no more permits will come."""
        waiters = [*self._waiters]
        self._waiters.clear()
        for waiter in waiters:
            waiter.wake()
