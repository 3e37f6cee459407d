"""Backpressure on writing: water marks, and when the protocol is paused and resumed.

The rules are asyncio's: `pause_writing` when more than the high-water mark is waiting for the kernel,
`resume_writing` when no more than the low-water mark is. "Waiting for the kernel" excludes bytes that are only queued
until the end of the tick: the queue is offered to the kernel before a protocol is paused. A paused protocol
therefore always has a driver that waits for writability, which will resume it. For TLS the carrier stands for the
kernel.

Thread: the loop's own. Sizes are in bytes. An error in the protocol goes to the loop's exception handler and
changes nothing here.
"""

import asyncio
import sys
from contextvars import Context
from typing import TYPE_CHECKING, Any, Final

from loopcore.transports.driver import Driver, Sink

try:
    import cython
except ImportError:
    from loopcore import _cython as cython

if cython.compiled:
    from cython.cimports.loopcore._native.interpreter import copy_context, run_in_context
    from cython.cimports.loopcore.transports.flow import give_instance_dicts
else:
    from loopcore._native.interpreter import copy_context, run_in_context

if TYPE_CHECKING:
    from typing import Protocol

    from loopcore.kernel.scheduler import Scheduler

    class Announced(Protocol):
        """A transport whose life plugins are notified of."""

        _loop: Scheduler


HIGH_WATER: Final = 64 * 1024
"""The default high-water mark; the low-water mark is a quarter of it."""

JOIN_LIMIT: Final = 64 * 1024
"""Writes are joined up to this size. Beyond it a longer vector saves nothing, and the peer only waits."""

_HIGH_WATER, _LOW_WATER, _JOIN_LIMIT = HIGH_WATER, HIGH_WATER // 4, JOIN_LIMIT
_LIMITS = (_LOW_WATER, _HIGH_WATER)


def water_marks(high: "float | None", low: "float | None", default: int) -> tuple[float, float]:
    """Return the low-water and the high-water mark for the given limits, None where a limit was not given.

    Any numbers are accepted, as in asyncio. Raises ValueError unless high >= low >= 0, TypeError for a non-number.
    """
    if high is None:
        high = default if low is None else 4 * low
    if low is None:
        low = high // 4
    if not high >= low >= 0:
        raise ValueError(f"high ({high!r}) must be >= low ({low!r}) must be >= 0")
    return low, high


def whole_bytes(marks: tuple[float, float]) -> tuple[int, int]:
    """Return `marks` as integers that compare with any size as the marks do; larger ones become sys.maxsize."""
    low, high = marks
    return int(min(low, sys.maxsize)), int(min(high, sys.maxsize))


def fire_transport_hook(transport: "Announced", what: str, *argument: object) -> None:
    """Notify plugins that a transport has opened, closed, paused or resumed."""
    loop = transport._loop
    loop.probes.fire(f"loopcore_transport_{what}", loop, transport, *argument)


def fire_dropped_hook(transport: "Announced") -> None:
    """Notify plugins, in the next tick, that a transport has ended without being closed.

    Called by its finalizer, and so in any thread that releases it or runs the collector. Hooks receive the transport,
    so it is resurrected until then; its finalizer runs only once (PEP 442).
    """
    loop = transport._loop
    if loop._watching_transports and not loop.is_closed():
        try:
            loop.call_soon_threadsafe(fire_transport_hook, transport, "closed", None)
        except RuntimeError:
            pass  # closed in the meantime by the loop's thread


class FlowControl(Sink):
    """The water marks of the write side; base class of transports."""

    __slots__ = (
        "_loop",
        "_driver",
        "_protocol",
        "_context",
        "_limits",
        "_high_water",
        "_low_water",
        "_join_limit",
        "_protocol_paused",
        "__weakref__",
        "__dict__",
    )

    _default_high_water = HIGH_WATER

    def _work(self) -> object:
        return type(self._protocol)

    def _begin_flow(self, loop: "Scheduler") -> None:
        self._loop: Scheduler = loop
        self._driver: Driver
        self._protocol: asyncio.BaseProtocol
        self._context: Context = copy_context()
        """The context of the protocol's methods: a copy of the context in which the transport was made."""
        self._limits: tuple[float, float] = _LIMITS
        self._high_water: int = _HIGH_WATER
        self._low_water: int = _LOW_WATER
        self._join_limit: int = _JOIN_LIMIT
        self._protocol_paused: bool = False

    def get_write_buffer_size(self) -> int:
        """Return how many bytes were written and not yet taken by the kernel; of TLS, not yet encrypted."""
        return self._unsent()

    def _unsent(self) -> int:
        return self._driver.unsent

    def _offer(self) -> None:
        """Offer the queue to the kernel."""
        self._driver.flush()

    def get_write_buffer_limits(self) -> tuple[float, float]:
        """Return the low-water and the high-water mark, unchanged from the setting."""
        return self._limits

    def set_write_buffer_limits(self, high: "float | None" = None, low: "float | None" = None) -> None:
        """Set the water marks, which may be any numbers. Raises ValueError unless high >= low >= 0.

        A mark that is not given follows from the other: low is a quarter of high, high is four times low.
        """
        self._set_limits(high, low)
        self._maybe_pause_writing()

    def _set_limits(self, high: "float | None", low: "float | None") -> None:
        self._limits = water_marks(high, low, self._default_high_water)
        self._low_water, self._high_water = whole_bytes(self._limits)
        self._join_limit = min(self._high_water, JOIN_LIMIT)

    def _maybe_pause_writing(self) -> None:
        """Offer the queue to the kernel, and pause the protocol if too much is left."""
        if self._unsent() > self._join_limit:
            self._offer()
        if self._unsent() > self._high_water and not self._protocol_paused:
            self._protocol_paused = True
            if self._loop._watching_transports:
                fire_transport_hook(self, "paused", "writing")
            self._call_flow("pause_writing")

    def _resume_if_low(self, unsent: int) -> None:
        """Let the paused protocol write again if at most the low-water mark is left."""
        if self._protocol_paused and unsent <= self._low_water:
            run_in_context(self._context, self._resume_protocol, ())

    def _resume_protocol(self) -> None:
        """Let the paused protocol write again. Called in its context."""
        self._protocol_paused = False
        if self._loop._watching_transports:
            fire_transport_hook(self, "resumed", "writing")
        self._call_flow("resume_writing")

    def _call_flow(self, name: str) -> None:
        try:
            getattr(self._protocol, name)()
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as exc:
            self._report(exc, f"protocol.{name}() failed")

    def _report(self, exc: BaseException, message: str) -> None:
        context: dict[str, Any] = {
            "message": message,
            "exception": exc,
            "transport": self,
            "protocol": self._protocol,
        }
        self._loop.call_exception_handler(context)


if cython.compiled:
    give_instance_dicts()
