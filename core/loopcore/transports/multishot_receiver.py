"""What comes in over a completion port: the one receiving operation of a driver, begun, called off and begun again.

A readiness port leaves to the kernel what nobody reads. A completion port has perhaps read it already when reading is
stopped: the cancellation comes too late for what is on its way. That is held here, as much as was in flight, and
handed over when reading starts again, before the port is asked for anything newer.

One operation serves for the life of the connection. It ends with the end of the stream, an error, a cancellation, or
when the port wants to be asked again; the driver hears of the first two. Nothing is handed over from inside `start`.

Thread: the loop's own.
"""

import errno
from collections import deque
from typing import TYPE_CHECKING, Any

from loopcore.interest import READ
from loopcore.kernel.completions import Completions
from loopcore.kernel.runnable import Runnable
from loopcore.operations import Operation
from loopcore.transports.driver import Driver

try:
    import cython
except ImportError:
    from loopcore import _cython as cython

if cython.compiled:
    from cython.cimports.loopcore.native.contexts import enter, leave

if TYPE_CHECKING:
    from loopcore.kernel.scheduler import Scheduler


class MultishotReceiver(Runnable):
    """Runs for each completion of `operation`, and hands the results to the driver's `_arrived`, in its context."""

    __slots__ = (
        "_completions",
        "_scheduler",
        "_driver",
        "_operation",
        "_next",
        "_held",
        "_run_scheduled",
        "_cancelled",
        "_is_more",
    )

    def __init__(self, scheduler: "Scheduler", driver: Driver, operation: Operation) -> None:
        self._completions: Completions = scheduler.completions
        self._scheduler: Scheduler = scheduler
        self._driver: Driver | None = driver
        self._operation: Operation = operation
        self._next: Operation | None = None
        # Most connections never hold anything: made with the first result that has to wait.
        self._held: deque[Any] | None = None
        self._run_scheduled: bool = False
        self._cancelled: bool = False
        self._is_more: bool = False
        """The port has told all it knows, and the driver has not taken everything yet."""

    def use(self, operation: Operation) -> None:
        """Go on with another operation. The present one is called off; what it still brings comes first."""
        self._next = operation
        if self._operation.pending and not self._cancelled:
            self._cancelled = True
            self._completions.cancel(self._operation)

    def start(self) -> None:
        """Hand over what is held, later in this tick or in the next, then what comes. `driver.reading` is set."""
        if self._held is not None:
            if not self._run_scheduled:
                self._run_scheduled = True
                self._scheduler.push(self)
        elif not self._operation.pending:
            self._submit()

    def rearm(self) -> None:
        """Hand over READ in the next tick, though the port will not say so again: its operation is a Poll for edges."""
        if self._operation.pending:  # or else it is asked again
            self._is_more = True
            if not self._run_scheduled:
                self._run_scheduled = True
                self._scheduler.push(self)

    def stop(self) -> None:
        """Hand nothing over until `start`. `driver.reading` is no longer set."""
        if self._operation.pending and not self._cancelled:
            self._cancelled = True
            self._completions.cancel(self._operation)

    def release(self) -> None:
        """End for good. What comes nevertheless is dropped, and what the port has lent is given back."""
        self.stop()
        self._driver = None
        self._held = None

    def _submit(self) -> None:
        if self._next is not None:
            self._operation = self._next
            self._next = None
        self._is_more = False  # it tells of what is there by itself, and may be a Receive, which nothing may overtake
        self._operation.target = self
        self._completions.submit(self._operation)

    def _run(self) -> None:
        operation = self._operation
        result = operation.result
        operation.result = None
        if result is None:
            self._run_scheduled = False
            if self._is_more:
                self._is_more = False
                result = READ
        elif not operation.pending:
            operation.target = None  # the cycle is closed while the port has the operation only
            if isinstance(result, OSError) and self._is_expected_termination(result):
                result = None
            self._cancelled = False
        driver = self._driver
        if driver is None:
            give_back(result)
            return
        try:
            if result is None or self._held is not None or not driver.reading:
                self._run_seldom(driver, result)
            else:
                self._hand_over(driver, result)
        finally:
            # Also after SystemExit from the protocol, or else nothing would ever come again.
            if driver.reading and (self._held is not None or not operation.pending):
                self.start()

    def _hand_over(self, driver: Driver, result: Any) -> None:
        if cython.compiled:
            thread = self._scheduler._contexts._thread
            enter(thread, driver.context)
            try:
                driver._arrived(result)
            finally:
                leave(thread, driver.context)
            driver._answer()
        else:
            driver.context.run(driver._arrived, result)

    def _run_seldom(self, driver: Driver, result: Any) -> None:
        """Hold what has to wait, and hand over what is held as long as the driver reads."""
        if result is not None:
            if self._held is None:
                self._held = deque()
            self._held.append(kept(result))
        while self._held is not None and driver.reading:
            held = self._held.popleft()
            if not self._held:
                self._held = None
            self._hand_over(driver, held)

    def push_back(self, result: Any) -> None:
        """Hold `result`, the rest of what is being handed over, before everything else. After `release` a no-op."""
        if self._driver is None:
            return
        if self._held is None:
            self._held = deque()
        self._held.appendleft(result)

    def _is_expected_termination(self, error: OSError) -> bool:
        """Tell whether `error` is only the end of the operation, and nothing about the connection."""
        if isinstance(error, BlockingIOError | InterruptedError):
            return True
        return self._cancelled and error.errno == errno.ECANCELED


def kept(result: Any) -> Any:
    """Return `result` in memory of our own, if it is in the port's, which is given back."""
    if not hasattr(result, "give_back"):
        return result
    try:
        return bytes(result.view)
    finally:
        result.give_back()


def give_back(result: Any) -> None:
    """Return the port's memory to it, if `result` is lent."""
    if hasattr(result, "give_back"):
        result.give_back()
