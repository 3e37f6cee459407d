"""Policies of the pending phase: which callback goes first, and how many have their turn before the loop polls.

Without a policy the ready queue is run first in, first out, all that was in it when the wait returned. A
`ReadyOrder` changes the order among those, a `TickBudget` ends the phase earlier. Neither can make the loop lose a
callback: it keeps what it has handed over in `OrderedQueue`, and runs by itself what it is not given back. Nor can
they starve I/O, for a tick still ends, and polls again.
"""

from typing import Protocol

from loopcore.errors import UsageError
from loopcore.kernel.runnable import Runnable

try:
    import cython
except ImportError:
    from loopcore import _cython as cython

if cython.compiled:
    from cython.cimports.loopcore.native.cpython import identity, monotonic_ns
else:
    from time import monotonic_ns

    from loopcore.native.interpreted import identity

_CLOCK_STRIDE = 8
_VERY_MANY = 1 << 30


class ReadyOrder(Protocol):
    """Puts what is ready in an order. A plugin makes one in `loopcore_make_ready_queue`. Thread: the loop's own.

    At the beginning of a tick's pending phase the loop pushes what has become ready, in order of arrival, and then
    pops one after the other, runs it, and pops the next. What a tick pushes it also pops, unless a tick budget ends it
    earlier; then the next tick pushes to what is left.

    An entry is an `asyncio.Handle`, an `asyncio.Task`, or (a few) an internal step of a transport. One that was
    cancelled is popped as the others are. If either method raises, or `pop` returns what it was not given, the plugin
    is taken out, and what it held goes back to the ready queue.
    """

    def push(self, runnable: Runnable, /) -> None:
        """Take `runnable`, which is not in here."""

    def pop(self) -> Runnable | None:
        """Give back the one that is to run next. None is for nothing left; if there is, it runs in order of arrival."""


class TickBudget(Protocol):
    """How much a tick's pending phase may run. A plugin makes one in `loopcore_make_tick_budget`.

    What does not fit runs in the next tick, which polls first. One callback runs in any case, and one that is running
    is not interrupted. Both are read at the beginning of each pending phase, so a budget may change.
    """

    @property
    def callbacks(self) -> int | None:
        """At most so many callbacks; None for any number."""

    @property
    def seconds(self) -> float | None:
        """No further callback after so many seconds; None for any time.

        The clock is read after each callback while they take long in comparison, after every eighth while they do not.
        """


class OrderedQueue:
    """The loop's end of a ReadyOrder: what it was handed and has not given back. Thread: the loop's own."""

    __slots__ = ("_order", "_lent")

    def __init__(self, order: ReadyOrder) -> None:
        if not callable(getattr(order, "push", None)) or not callable(getattr(order, "pop", None)):
            raise UsageError(f"a ready order has the methods push and pop; {order!r} has not")
        self._order: ReadyOrder = order
        self._lent: dict[int, Runnable] = {}

    def __len__(self) -> int:
        return len(self._lent)

    def holds(self, runnable: Runnable) -> bool:
        """Tell whether `runnable` is handed over."""
        return identity(runnable) in self._lent

    def lend(self, runnable: Runnable) -> bool:
        """Hand over `runnable`. False if it is in there already: it has to wait. Raises what the order raises."""
        if identity(runnable) in self._lent:
            return False
        self._lent[identity(runnable)] = runnable
        self._order.push(runnable)
        return True

    def pop(self) -> Runnable | None:
        """Return what runs next, or None. Raises what the order raises, and UsageError for what it was not given."""
        if not self._lent:
            return None
        runnable = self._order.pop()
        if runnable is None:
            return self._lent.pop(next(iter(self._lent)))
        if self._lent.pop(identity(runnable), None) is not runnable:
            raise UsageError(f"a ready order returned {runnable!r}, which it was not given, or not again")
        return runnable

    def take_back(self) -> list[Runnable]:
        """Return everything, in the order's order as long as that works, then in order of arrival."""
        back: list[Runnable] = []
        try:
            while (runnable := self.pop()) is not None:
                back.append(runnable)
        except Exception:
            back.extend(self._lent.values())  # its plugin is on the way out for this already, or for another reason
        self._lent.clear()
        return back


class Allowance:
    """What is left of a TickBudget in one pending phase. Thread: the loop's own."""

    __slots__ = ("_budget", "_callbacks", "_limit_ns", "_began_at", "_looked_at", "_next_look", "_stride")

    def __init__(self, budget: TickBudget) -> None:
        self._budget: TickBudget = budget
        self._callbacks: int = 0
        self._limit_ns: int = 0
        self._began_at: int = 0
        self._looked_at: int = 0
        self._next_look: int = 0
        self._stride: int = 1
        self.begin()

    def begin(self) -> None:
        """A pending phase begins. Raises what the budget raises, UsageError if it is negative or no number."""
        callbacks, seconds = self._budget.callbacks, self._budget.seconds
        if not _is_amount(callbacks) or not _is_amount(seconds):
            raise UsageError(f"a tick budget is of numbers that are not negative, or None: {callbacks!r}, {seconds!r}")
        self._callbacks = -1 if callbacks is None else int(min(callbacks, _VERY_MANY))
        self._limit_ns = -1 if seconds is None else int(min(seconds, 1e9) * 1e9)
        if self._limit_ns >= 0:
            self._began_at = self._looked_at = monotonic_ns()
            self._next_look = 1
            self._stride = 1

    def is_spent(self, ran: int) -> bool:
        """Tell whether the phase ends, `ran` callbacks having run."""
        if self._callbacks >= 0 and ran >= self._callbacks:
            return True
        if self._limit_ns < 0 or ran < self._next_look:
            return False
        now: int = monotonic_ns()
        # Those between two looks have taken a sixteenth of the time or more: look after each.
        if (now - self._looked_at) * 16 >= self._limit_ns:
            self._stride = 1
        elif self._stride < _CLOCK_STRIDE:
            self._stride *= 2
        self._looked_at = now
        self._next_look = ran + self._stride
        return now - self._began_at >= self._limit_ns


def _is_amount(value: object) -> bool:
    return value is None or (isinstance(value, int | float) and value >= 0)
