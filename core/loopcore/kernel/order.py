"""Policies of the pending phase: which callback runs first, and how many run before the loop polls.

Without a policy the ready queue is first in, first out, and all entries that were in it when the wait returned are run.
A `ReadyOrder` changes the order among those, a `TickBudget` ends the phase earlier. Neither can make the loop lose a
callback: it records the entries handed over in `OrderedQueue`, and runs those that are not given back. Nor can they
starve I/O: a tick still ends, and the loop polls again.
"""

from loopcore.errors import UsageError
from loopcore.hooks.types import ReadyOrder, TickBudget
from loopcore.kernel.runnable import Runnable

try:
    import cython
except ImportError:
    from loopcore import _cython as cython

if cython.compiled:
    from cython.cimports.loopcore._native.interpreter import identity, monotonic_ns
else:
    from loopcore._native.interpreter import identity, monotonic_ns

_CLOCK_STRIDE = 8
_VERY_MANY = 1 << 30


class OrderedQueue:
    """The loop's side of a ReadyOrder: the entries handed over and not yet returned. Thread: the loop's own."""

    __slots__ = ("_order", "_lent")

    def __init__(self, order: ReadyOrder) -> None:
        if not callable(getattr(order, "push", None)) or not callable(getattr(order, "pop", None)):
            raise UsageError(f"a ready order has the methods push and pop; {order!r} has not")
        self._order: ReadyOrder = order
        self._lent: dict[int, Runnable] = {}

    def __len__(self) -> int:
        return len(self._lent)

    def holds(self, runnable: Runnable) -> bool:
        """Return whether `runnable` is handed over."""
        return identity(runnable) in self._lent

    def lend(self, runnable: Runnable) -> bool:
        """Hand over `runnable`. False if the order has it already: it must wait. Raises what the order raises."""
        if identity(runnable) in self._lent:
            return False
        self._lent[identity(runnable)] = runnable
        self._order.push(runnable)
        return True

    def pop(self) -> Runnable | None:
        """Return the next entry, or None. Raises what the order raises; UsageError for an entry it was not given."""
        if not self._lent:
            return None
        runnable = self._order.pop()
        if runnable is None:
            return self._lent.pop(next(iter(self._lent)))
        if self._lent.pop(identity(runnable), None) is not runnable:
            raise UsageError(f"a ready order returned {runnable!r}, which it was not given, or not again")
        return runnable

    def take_back(self) -> list[Runnable]:
        """Return all entries: as the ReadyOrder pops them and, if it fails, the rest in order of arrival."""
        back: list[Runnable] = []
        try:
            while (runnable := self.pop()) is not None:
                back.append(runnable)
        except Exception:
            back.extend(self._lent.values())  # its plugin is being removed already, for this or another reason
        self._lent.clear()
        return back


class Allowance:
    """The rest of a TickBudget in one pending phase. Thread: the loop's own."""

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
        """Begin a pending phase. Raises what the budget raises, UsageError if a limit is negative or not a number."""
        callbacks, seconds = self._budget.callbacks, self._budget.seconds
        if not _is_amount(callbacks) or not _is_amount(seconds):
            raise UsageError(f"a tick budget's limits are None or numbers >= 0, not {callbacks!r} and {seconds!r}")
        self._callbacks = -1 if callbacks is None else int(min(callbacks, _VERY_MANY))
        self._limit_ns = -1 if seconds is None else int(min(seconds, 1e9) * 1e9)
        if self._limit_ns >= 0:
            self._began_at = self._looked_at = monotonic_ns()
            self._next_look = 1
            self._stride = 1

    def is_spent(self, ran: int) -> bool:
        """Return whether the phase ends, `ran` callbacks having run."""
        if self._callbacks >= 0 and ran >= self._callbacks:
            return True
        if self._limit_ns < 0 or ran < self._next_look:
            return False
        now: int = monotonic_ns()
        # The callbacks since the last reading took a sixteenth of the limit or more: read the clock after each one.
        if (now - self._looked_at) * 16 >= self._limit_ns:
            self._stride = 1
        elif self._stride < _CLOCK_STRIDE:
            self._stride *= 2
        self._looked_at = now
        self._next_look = ran + self._stride
        return now - self._began_at >= self._limit_ns


def _is_amount(value: object) -> bool:
    return value is None or (isinstance(value, int | float) and value >= 0)
