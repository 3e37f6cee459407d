"""MultishotReceiver: a driver's one receiving operation over a completion port, started, cancelled and restarted.

A readiness port leaves unread bytes to the kernel. A completion port may have read bytes already when reading is
stopped: a cancellation comes too late for results in flight. These are held here, at most as many as were in
flight, and delivered when reading starts again, before the port is asked for newer ones.

One operation serves for the life of the connection. It ends with the end of the stream, an error, a cancellation, or
when the port wants it submitted again; the driver learns only of the first two. Nothing is delivered from inside
`start`.

Thread: the loop's own.
"""

import errno
from collections import deque
from typing import TYPE_CHECKING, Any

from loopcore.kernel.completions import Completions
from loopcore.kernel.runnable import Runnable
from loopcore.ports.interest import READ
from loopcore.ports.operations import Operation
from loopcore.transports.driver import Driver

try:
    import cython
except ImportError:
    from loopcore import _cython as cython

if cython.compiled:
    from cython.cimports.loopcore._native.interpreter import run_in_context
else:
    from loopcore._native.interpreter import run_in_context

if TYPE_CHECKING:
    from loopcore.kernel.scheduler import Scheduler


class MultishotReceiver(Runnable):
    """Runs for each completion of `operation`, and passes the results to the driver's `_arrived`, in its context."""

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
        self._completions: Completions = scheduler._completions
        self._scheduler: Scheduler = scheduler
        self._driver: Driver | None = driver
        self._operation: Operation = operation
        self._next: Operation | None = None
        # Most connections never hold a result: made with the first one that has to wait.
        self._held: deque[Any] | None = None
        self._run_scheduled: bool = False
        self._cancelled: bool = False
        self._is_more: bool = False
        """Whether the driver has not taken everything yet, and the port will not report it again."""

    def __repr__(self) -> str:
        if self._driver is None:
            return f"<{type(self).__name__} closed>"
        return f"<{type(self).__name__} of {self._driver!r}>"

    def use(self, operation: Operation) -> None:
        """Continue with another operation. The present one is cancelled; its remaining results come first."""
        self._next = operation
        if self._operation.pending and not self._cancelled:
            self._cancelled = True
            self._completions.cancel(self._operation)

    def start(self) -> None:
        """Deliver held results, later in this tick or in the next, then new ones. `driver.reading` is set."""
        if self._held is not None:
            if not self._run_scheduled:
                self._run_scheduled = True
                self._scheduler._ready.push(self)
        elif not self._operation.pending:
            self._submit()

    def rearm(self) -> None:
        """Deliver READ in the next tick: the port will not report it again, as the operation is a Poll for edges."""
        if self._operation.pending:  # otherwise it will be submitted again
            self._is_more = True
            if not self._run_scheduled:
                self._run_scheduled = True
                self._scheduler._ready.push(self)

    def stop(self) -> None:
        """Deliver nothing until `start`. `driver.reading` is no longer set."""
        if self._operation.pending and not self._cancelled:
            self._cancelled = True
            self._completions.cancel(self._operation)

    def release(self) -> None:
        """End for good. Late results are dropped, and memory that the port has lent is returned."""
        self.stop()
        self._driver = None
        self._held = None

    def _submit(self) -> None:
        if self._next is not None:
            self._operation = self._next
            self._next = None
        self._is_more = False  # a new operation reports what is there; a Receive must not be overtaken
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
            operation.target = None  # the reference cycle exists only while the port has the operation
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
            # Also after SystemExit from the protocol, or else nothing would ever be received again.
            if driver.reading and (self._held is not None or not operation.pending):
                self.start()

    def _hand_over(self, driver: Driver, result: Any) -> None:
        run_in_context(driver.context, self._deliver, (driver, result))
        driver._answer()

    def _deliver(self, driver: Driver, result: Any) -> None:
        driver._arrived(result)

    def _run_seldom(self, driver: Driver, result: Any) -> None:
        """Hold a result that has to wait, and deliver held results as long as the driver reads."""
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
        """Hold `result`, the rest of the one being delivered, before all others. A no-op after `release`."""
        if self._driver is None:
            return
        if self._held is None:
            self._held = deque()
        self._held.appendleft(result)

    def _is_expected_termination(self, error: OSError) -> bool:
        """Return whether `error` means only the end of the operation, and nothing about the connection."""
        if isinstance(error, BlockingIOError | InterruptedError):
            return True
        return self._cancelled and error.errno == errno.ECANCELED


def kept(result: Any) -> Any:
    """Return `result`; if it is lent memory, return a copy and give the memory back to the port."""
    if not hasattr(result, "give_back"):
        return result
    try:
        return bytes(result.view)
    finally:
        result.give_back()


def give_back(result: object) -> None:
    """Give lent memory back to the port; no effect on any other result."""
    if hasattr(result, "give_back"):
        result.give_back()
