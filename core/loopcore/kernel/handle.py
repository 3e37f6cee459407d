# cython: always_allow_keywords=False
"""Handle and TimerHandle: a callback with its arguments and its context, cancellable.

Both pass `isinstance` for asyncio's classes through `__class__`, because libraries test for them. They cannot inherit
from those classes: a compiled class cannot have an interpreted base (docs/adr/0007).
"""

import asyncio
import inspect
import sys
import traceback
from collections.abc import Callable
from contextvars import Context
from time import sleep
from typing import Any, Protocol

from loopcore.hooks.sources import SOON, TIMER
from loopcore.kernel.flags import HAS_GIL
from loopcore.kernel.formatting import describe_callback, extract_stack
from loopcore.kernel.limits import WAIT_FOR_RUNNER
from loopcore.kernel.runnable import Runnable

try:
    import cython
except ImportError:
    from loopcore import _cython as cython

if cython.compiled:
    from cython.cimports.loopcore._native.interpreter import call_in_context, copy_context, get_ident
else:
    from loopcore._native.interpreter import call_in_context, copy_context, get_ident

_SOON, _TIMER = SOON, TIMER
_IS_COROUTINE: object = getattr(asyncio.coroutines, "_is_coroutine", object())
"""The marker by which old libraries, and mocks, declare a function a coroutine function."""

_THREAD_SAFE_HANDLE: type = getattr(asyncio.events, "_ThreadSafeHandle", asyncio.Handle)


class HandleOwner(Protocol):
    """The loop of a handle, as the handle uses it."""

    def get_debug(self) -> bool: ...

    def call_exception_handler(self, context: dict[str, Any]) -> None: ...


class Handle(Runnable):
    """A callback that the loop will run once, unless it is cancelled first.

    `call_soon` and the other scheduling methods return it. Thread: the loop's own, as for all of a loop's objects.
    """

    __slots__ = (
        "_callback",
        "_args",
        "_context",
        "_loop",
        "_cancelled",
        "_source_traceback",
        "_repr",
        "__weakref__",
    )

    def __init__(
        self, callback: Callable[..., object], args: tuple[Any, ...], loop: HandleOwner, context: Context | None = None
    ) -> None:
        self._callback: Callable[..., object] | None = callback
        self._args: tuple[Any, ...] | None = args
        self._context: Context = copy_context() if context is None else context
        self._loop: HandleOwner = loop
        self._cancelled: bool = False
        self._source_traceback: traceback.StackSummary | None = None
        self._repr: str | None = None
        if loop.get_debug():
            self._source_traceback = extract_stack()

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return asyncio.Handle

    def _run(self) -> None:
        if not self._cancelled:
            self._call()

    def _source(self) -> int:
        return _SOON

    def _work(self) -> object:
        return self._callback

    def _discard(self) -> None:
        self.cancel()  # another thread may hold the handle, and can ask whether it will ever run

    def _call(self) -> None:
        callback, args = self._callback, self._args  # the handle may drop them while they run
        error = call_in_context(self._context, callback, args)
        if error is not None:
            self._report(error)
        del self  # interpreted, a traceback keeps this frame

    def _report(self, exc: BaseException) -> None:
        if isinstance(exc, (SystemExit, KeyboardInterrupt)):
            raise exc
        what = describe_callback(self._callback, self._args, self._loop.get_debug())
        context: dict[str, Any] = {"message": f"Exception in callback {what}", "exception": exc, "handle": self}
        if self._source_traceback:
            context["source_traceback"] = self._source_traceback
        kept = exc.__traceback__, exc.__context__
        try:
            raise exc
        except BaseException:  # so that it is the current exception while the handler runs, as with asyncio
            exc.__traceback__, exc.__context__ = kept
            self._loop.call_exception_handler(context)

    def cancel(self) -> None:
        """Cancel the callback and release it with its arguments. Without effect if it has run or was cancelled.

        Thread: the loop's own. See ThreadSafeHandle for those of `call_soon_threadsafe`.
        """
        if self._cancelled:
            return
        self._cancelled = True
        if self._loop.get_debug():
            # Kept for messages: once the callback is gone, nothing else describes the handle.
            self._repr = repr(self)
        self._callback = None
        self._args = None

    def cancelled(self) -> bool:
        """Return whether `cancel` was called."""
        return self._cancelled

    def get_context(self) -> Context:
        """Return the context that the callback runs in."""
        return self._context

    def _describe(self) -> list[str]:
        info = [type(self).__name__]
        if self._cancelled:
            info.append("cancelled")
        if self._callback is not None:
            info.append(describe_callback(self._callback, self._args, self._loop.get_debug()))
        if self._source_traceback:
            frame = self._source_traceback[len(self._source_traceback) - 1]
            info.append(f"created at {frame.filename}:{frame.lineno}")
        return info

    def __repr__(self) -> str:
        if self._repr is not None:
            return self._repr
        return f"<{' '.join(self._describe())}>"


class ThreadSafeHandle(Handle):
    """A handle that any thread may cancel, as asyncio's from Python 3.14 on.

    When `cancel` returns in another thread than the loop's, the callback is not running and will not run (gh-126083).
    `call_soon_threadsafe` returns it where asyncio has one, from Python 3.14 on, and on a free-threaded Python.

    asyncio's handle uses a lock; this one uses two marks. The loop sets `_runner`, then reads `_revoked`; `cancel` sets
    `_revoked`, then reads `_runner`. One of them sees the other's mark: the loop skips the callback, or `cancel` waits
    for its end.
    """

    __slots__ = ("_runner", "_revoked")

    def __init__(
        self, callback: Callable[..., object], args: tuple[Any, ...], loop: HandleOwner, context: Context | None = None
    ) -> None:
        Handle.__init__(self, callback, args, loop, context)
        self._runner: int = 0  # the thread that runs the callback
        self._revoked: int = 0

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return _THREAD_SAFE_HANDLE

    def _run(self) -> None:
        self._runner = get_ident()
        try:
            if not self._revoked:
                self._call()
        finally:
            self._runner = 0

    def cancel(self) -> None:
        self._revoked = 1
        self._wait_for_runner()
        with cython.critical_section(self):
            Handle.cancel(self)

    def cancelled(self) -> bool:
        self._wait_for_runner()
        return self._revoked != 0

    def _wait_for_runner(self) -> None:
        while self._runner not in (0, get_ident()):
            sleep(WAIT_FOR_RUNNER)

    def _work(self) -> object:
        with cython.critical_section(self):  # another thread may clear it
            return self._callback

    def _describe(self) -> list[str]:
        with cython.critical_section(self):
            return Handle._describe(self)


class TimerKeeper:
    """The owner of set timers: a timer notifies it when it is cancelled."""

    __slots__ = ("debug",)

    def __init__(self) -> None:
        self.debug: bool = False
        """Whether a cancelled timer keeps its representation: the loop is in debug mode."""

    def note_cancelled(self, timer: "TimerHandle") -> None:
        """Called when `timer` is being cancelled, before it is marked as cancelled."""
        raise NotImplementedError


class TimerHandle(Handle):
    """A callback that is due at a deadline; returned by `call_later` and `call_at`."""

    __slots__ = ("_when", "_sequence", "_keeper")

    def __init__(
        self,
        when: float,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        loop: HandleOwner,
        context: Context | None = None,
    ) -> None:
        if getattr(self, "_scheduled", False):  # interpreted, `_keeper` may be unset
            raise RuntimeError(f"{self!r} is set: cancel it and make another, in place of calling its __init__ again")
        Handle.__init__(self, callback, args, loop, context)
        self._when: float = when
        self._sequence: int = 0
        self._keeper: TimerKeeper | None = None  # while the timer is set

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return asyncio.TimerHandle

    @property
    def _scheduled(self) -> bool:
        return self._keeper is not None

    def _source(self) -> int:
        return _TIMER  # deferred by a tick that ended early

    def when(self) -> float:
        """Return the deadline, in seconds of the loop's clock."""
        return self._when

    def cancel(self) -> None:
        if self._cancelled:
            return
        keeper = self._keeper
        if keeper is None:
            Handle.cancel(self)
            return
        # As `Handle.cancel`, without calling the loop: almost every timeout ends here.
        keeper.note_cancelled(self)
        self._cancelled = True
        if keeper.debug:
            self._repr = repr(self)
        self._callback = None
        self._args = None

    def _describe(self) -> list[str]:
        info = Handle._describe(self)
        info.insert(2 if self._cancelled else 1, f"when={self._when}")
        return info

    def __hash__(self) -> int:
        return hash(self._when)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TimerHandle):
            return NotImplemented
        return (
            self._when == other._when
            and self._callback == other._callback
            and self._args == other._args
            and self._cancelled == other._cancelled
        )

    def __lt__(self, other: object) -> bool:
        return self._when < other._when if isinstance(other, TimerHandle) else NotImplemented

    def __le__(self, other: object) -> bool:
        return self._when < other._when or self == other if isinstance(other, TimerHandle) else NotImplemented

    def __gt__(self, other: object) -> bool:
        return self._when > other._when if isinstance(other, TimerHandle) else NotImplemented

    def __ge__(self, other: object) -> bool:
        return self._when > other._when or self == other if isinstance(other, TimerHandle) else NotImplemented


PostedHandle = ThreadSafeHandle if sys.version_info >= (3, 14) or not HAS_GIL else Handle
"""The class of the handles that `call_soon_threadsafe` returns."""
_IS_SAFE = PostedHandle is ThreadSafeHandle


def _fill(
    handle: Handle, callback: Callable[..., object], args: tuple[Any, ...], loop: HandleOwner, context: Context | None
) -> None:
    handle._callback = callback
    handle._args = args
    handle._context = copy_context() if context is None else context
    handle._loop = loop
    handle._cancelled = False
    handle._source_traceback = None
    handle._repr = None


def make_handle(
    callback: Callable[..., object], args: tuple[Any, ...], loop: HandleOwner, context: Context | None
) -> Handle:
    """Make a Handle as its constructor does outside debug mode, without the cost of a constructor call."""
    handle = Handle.__new__(Handle)
    _fill(handle, callback, args, loop, context)
    return handle


def make_posted(
    callback: Callable[..., object], args: tuple[Any, ...], loop: HandleOwner, context: Context | None
) -> Handle:
    """Make a PostedHandle as its constructor does outside debug mode, without the cost of a constructor call."""
    if not _IS_SAFE:
        return make_handle(callback, args, loop, context)
    handle = ThreadSafeHandle.__new__(ThreadSafeHandle)
    _fill(handle, callback, args, loop, context)
    handle._runner = 0
    handle._revoked = 0
    return handle


def make_timer(
    when: float,
    callback: Callable[..., object],
    args: tuple[Any, ...],
    loop: HandleOwner,
    context: Context | None,
) -> TimerHandle:
    """Make a TimerHandle as its constructor does outside debug mode, without the cost of a constructor call."""
    timer = TimerHandle.__new__(TimerHandle)
    _fill(timer, callback, args, loop, context)
    timer._when = when
    timer._sequence = 0
    timer._keeper = None
    return timer


def is_coroutine_function(callback: object) -> bool:
    """Return whether asyncio takes `callback` for an `async def` function; 3.14 deprecates asyncio's own check."""
    return inspect.iscoroutinefunction(callback) or getattr(callback, "_is_coroutine", None) is _IS_COROUTINE


def check_callback(callback: object, method: str) -> None:
    """Raise TypeError, with asyncio's text, if `callback` cannot be a callback."""
    if asyncio.iscoroutine(callback) or is_coroutine_function(callback):
        raise TypeError(f"coroutines cannot be used with {method}()")
    if not callable(callback):
        raise TypeError(f"a callable object was expected by {method}(), got {callback!r}")


def check_context(context: object) -> None:
    """Raise TypeError if this is not a context: a task with it would fail at each step, and never end."""
    if not isinstance(context, Context):
        raise TypeError(f"context must be a contextvars.Context, not {type(context).__name__}")
