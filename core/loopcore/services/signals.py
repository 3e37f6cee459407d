"""Signals: handlers that run as callbacks of the loop.

A C-level handler may do almost nothing, so CPython's writes the signal's number into a descriptor given to
`signal.set_wakeup_fd`; the other end is watched like any descriptor, which also ends a blocking wait, and each
number read puts the handler on the ready queue. The Python-level handler of the signal does nothing: it is there
because without one the signal would have its default effect.

A pipe, where asyncio uses a socket pair: a full channel loses signals, and 1-byte writes fill a Unix
socket pair after 278 (each costs a separate kernel buffer) but a pipe only after 65,536 (Linux 6). Windows can watch
only sockets.

A process has one wake-up descriptor, owned by the main thread: hence the errors elsewhere.
"""

import asyncio
import errno
import functools
import inspect
import os
import signal
import socket
import sys
import warnings
from collections.abc import Callable
from typing import Any, Final, Protocol

from loopcore.kernel.handle import Handle, HandleOwner
from loopcore.kernel.probes import Probes
from loopcore.kernel.readiness import Readiness
from loopcore.kernel.ready import ReadyQueue
from loopcore.kernel.runnable import Runnable
from loopcore.log import logger

DRAIN_SIZE = 65536
"""Bytes read at once: the capacity of the pipe, so that one read empties it."""

RUNS_LISTEN: Final = sys.platform == "win32"
"""Whether a run must listen for signals without handlers, too: between `begin_run` and `end_run`."""

_HAS_PIPES = sys.platform != "win32"
"""Whether the backends of this platform can watch a pipe."""


class SignalHost(HandleOwner, Protocol):
    """The loop as this module uses it."""

    _readiness: Readiness
    _ready: ReadyQueue
    probes: Probes


class _Channel(Runnable):
    """The two ends: CPython's C handler writes the numbers, and they are read here in the io phase."""

    __slots__ = ("_deliver", "_ends", "_read", "reading", "writing")

    def __init__(self, deliver: Callable[[int], None]) -> None:
        self._deliver = deliver
        self._ends: tuple[socket.socket, ...] = ()
        self._read: Callable[[int], bytes]
        if _HAS_PIPES:
            self.reading, self.writing = os.pipe()
            self._read = functools.partial(os.read, self.reading)
            try:
                os.set_blocking(self.reading, False)
                os.set_blocking(self.writing, False)
            except BaseException:
                self.close()
                raise
        else:
            near, far = self._ends = socket.socketpair()
            self.reading, self.writing = near.fileno(), far.fileno()
            self._read = near.recv
            near.setblocking(False)
            far.setblocking(False)

    def _run(self) -> None:
        try:
            numbers = self._read(DRAIN_SIZE)
        except (BlockingIOError, InterruptedError):
            return
        for number in numbers:
            self._deliver(number)

    def renew(self) -> None:
        """Replace the pipe behind the same descriptors. Only for platforms that fork, and so only for a pipe."""
        fresh = _Channel(self._deliver)
        os.dup2(fresh.reading, self.reading, inheritable=False)
        os.dup2(fresh.writing, self.writing, inheritable=False)
        fresh.close()

    def close(self) -> None:
        if self._ends:
            for end in self._ends:
                end.close()
        else:
            os.close(self.reading)
            os.close(self.writing)


class Signals:
    """The signal handlers of one loop. Thread: the main one only."""

    __slots__ = ("_channel", "_handlers", "_host", "_is_kept")

    def __init__(self, host: SignalHost) -> None:
        self._host = host
        self._handlers: dict[int, Handle] = {}
        self._channel: _Channel | None = None
        self._is_kept = False  # for a run of the loop, also without handlers

    def add(self, sig: int, callback: Callable[..., object], args: tuple[Any, ...]) -> None:
        """Run `callback(*args)` for every signal `sig`; replaces an earlier handler.

        Raises TypeError or ValueError if `sig` is not a signal, RuntimeError if it cannot be caught, or outside the
        main thread.
        """
        if asyncio.iscoroutine(callback) or inspect.iscoroutinefunction(callback):
            raise TypeError("coroutines cannot be used with add_signal_handler()")
        check_signal(sig)
        self._open_channel()
        self._handlers[sig] = Handle(callback, args, self._host, None)
        try:
            signal.signal(sig, _do_nothing)
            if sys.platform != "win32":
                # The program need not notice a system call that was restarted; asyncio does the same.
                signal.siginterrupt(sig, False)
        except OSError as exc:
            del self._handlers[sig]
            if not self._handlers:
                self._close_channel()
            if exc.errno == errno.EINVAL:
                raise RuntimeError(f"sig {sig} cannot be caught") from exc
            raise

    def remove(self, sig: int) -> bool:
        """Restore the default effect of `sig`; return whether it had a handler. Raises as `add`."""
        check_signal(sig)
        if self._handlers.pop(sig, None) is None:
            return False
        try:
            signal.signal(sig, signal.default_int_handler if sig == signal.SIGINT else signal.SIG_DFL)
        except OSError as exc:
            if exc.errno == errno.EINVAL:
                raise RuntimeError(f"sig {sig} cannot be caught") from exc
            raise
        if not self._handlers and not self._is_kept:
            self._close_channel()
        return True

    def begin_run(self) -> None:
        """Make every signal end the loop's wait during a run. Only called on Windows, where otherwise none does.

        CPython's handlers run in the main thread, as soon as it runs Python code; on Windows Ctrl-C arrives in a
        separate thread and interrupts no call. Does nothing outside the main thread, or if the program has set a
        wake-up descriptor.
        """
        try:
            before = signal.set_wakeup_fd(-1)
            if before == -1:
                self._open_channel()
                self._is_kept = True
            else:
                signal.set_wakeup_fd(before)
        except (ValueError, RuntimeError):
            pass  # not the main thread, which alone receives signals

    def end_run(self) -> None:
        """Undo `begin_run`. The channel stays for the next run: on Windows a socket pair takes a handshake."""
        if self._is_kept:
            self._is_kept = False
            if not self._handlers:
                self._stop_listening()

    def close(self) -> None:
        """Remove all handlers. During interpreter shutdown that is too late: they are dropped with a warning."""
        if not self._handlers:
            self._close_channel()
            return
        if not sys.is_finalizing():
            try:
                for sig in list(self._handlers):
                    self.remove(sig)
            finally:  # outside the main thread none can be removed
                self._handlers.clear()
                self._close_channel()
            return
        warnings.warn(
            f"Closing the loop {self._host!r} on interpreter shutdown stage, skipping signal handlers removal",
            ResourceWarning,
            stacklevel=2,
            source=self._host,
        )
        self._handlers.clear()

    def renew(self) -> None:
        """In a forked child, listen on a new channel: signals that arrive on the inherited one are the parent's."""
        channel = self._channel
        if channel is None:
            return
        channel.renew()
        others = signal.set_wakeup_fd(channel.writing)
        if others not in (-1, channel.writing):
            signal.set_wakeup_fd(others)

    def _deliver(self, number: int) -> None:
        handle = self._handlers.get(number)
        if handle is None:
            return  # written before the handler was removed, or by another user of the descriptor
        if handle.cancelled():
            self.remove(number)
        else:
            self._host.probes.cold("loopcore_signal", loop=self._host, signum=number)
            self._host._ready.push(handle)

    def _open_channel(self) -> None:
        channel = self._channel or _Channel(self._deliver)
        try:
            # Fails outside the main thread. Done for every handler: other code may have replaced the descriptor.
            signal.set_wakeup_fd(channel.writing)
        except (ValueError, OSError) as exc:
            if self._channel is None:
                channel.close()
            raise RuntimeError(str(exc)) from exc
        if self._channel is None:
            self._channel = channel
            try:
                self._host._readiness.set_reader(channel.reading, channel)
            except BaseException:
                self._close_channel()
                raise

    def _close_channel(self) -> None:
        if self._channel is None:
            return
        self._stop_listening()
        channel, self._channel = self._channel, None
        self._host._readiness.clear_reader(channel.reading)
        channel.close()

    def _stop_listening(self) -> None:
        try:
            taken_over = signal.set_wakeup_fd(-1)
            if self._channel is not None and taken_over not in (-1, self._channel.writing):
                signal.set_wakeup_fd(taken_over)
        except (ValueError, OSError) as exc:
            logger.info("set_wakeup_fd(-1) failed: %s", exc)


def check_signal(sig: object) -> None:
    """Raise TypeError or ValueError, with asyncio's texts, unless `sig` is the number of a signal."""
    if not isinstance(sig, int):
        raise TypeError(f"sig must be an int, not {sig!r}")
    if sig not in signal.valid_signals():
        raise ValueError(f"invalid signal number {sig}")


def _do_nothing(signum: int, frame: object) -> None:
    """Replace the default effect; the work is done when the loop has read the number."""
