"""Call: an operation of the kernel or of a thread on a file or a socket, and the future of its result.

asyncio's future ends the moment it is cancelled, and its waiter continues while the kernel still reads the buffer, and
a thread still uses the descriptor. This one requests an early end, and is cancelled once the work has ended: after
CancelledError a waiter knows that no work is in flight, and may change the buffer and close the descriptor.
`asyncio.Task` is cancelled in the same way, so code that cancels tasks can cancel these. Work that may never end must
be work that a port can cancel, such as a connect; regular files always answer, and no other files are opened.

Thread: the loop's own.
"""

import errno
from typing import TYPE_CHECKING, Any, Final, Protocol

from loopcore.kernel.completions import Completions
from loopcore.kernel.future import Future
from loopcore.ports.operations import CLOSE, Operation

if TYPE_CHECKING:
    import asyncio

    from loopcore.kernel.scheduler import Scheduler

CANCELLED_ERRNOS: Final = (errno.ECANCELED, errno.EINTR)
"""The error numbers of a cancelled call."""


class Used(Protocol):
    """The object that a call works on; it is notified of the beginning and the end."""

    def enter(self) -> None: ...

    def leave(self) -> None: ...


class Call(Future):
    """A future that, when cancelled, is done only once its work has ended. The base class just waits for `end`."""

    __slots__ = ("_asked", "_reason", "_used", "outcome", "purpose")

    def __init__(self, loop: "asyncio.AbstractEventLoop | Scheduler", purpose: str = "") -> None:
        Future.__init__(self, loop=loop)
        self.outcome: Any = None
        """The result of the work, also if the future is cancelled; None if it failed."""
        self.purpose = purpose
        """Describes the work, if a failure must not go unnoticed: then an error of a cancelled call is reported."""
        self._asked = False
        self._reason: Any = None
        self._used: Used | None = None

    def hold(self, used: Used | None) -> None:
        """Use `used` until the end."""
        if used is not None:
            used.enter()
            self._used = used

    def cancel(self, msg: Any = None) -> bool:
        """Request the end; the future is cancelled once the work has ended. False if it is done."""
        if self.done():
            return False
        if not self._asked:
            self._asked = True
            self._reason = msg
            self._call_off()
        return True

    def end(self, outcome: Any, error: BaseException | None = None) -> None:
        """Settle the future: the work has ended or failed."""
        used, self._used = self._used, None
        if used is not None:
            used.leave()
        self.outcome = outcome
        if self._asked:
            if self.purpose and error is not None and getattr(error, "errno", None) not in CANCELLED_ERRNOS:
                self.get_loop().call_exception_handler(
                    {"message": f"{self.purpose} failed after its waiter was cancelled", "exception": error}
                )
            Future.cancel(self, self._reason)
        elif error is not None:
            self.set_exception(error)
        else:
            self.set_result(outcome)

    def _call_off(self) -> None:
        """Make the work end early, if that is possible."""


class OperationCall(Call):
    """A call that a completion port executes; the target of its operation."""

    __slots__ = ("_completions", "_operation")

    def __init__(
        self,
        loop: "asyncio.AbstractEventLoop | Scheduler",
        purpose: str,
        completions: Completions,
        operation: Operation,
    ) -> None:
        Call.__init__(self, loop, purpose)
        self._completions = completions
        self._operation = operation
        operation.target = self
        try:
            completions.submit(operation)
        except BaseException:
            operation.target = None  # avoids a reference cycle
            raise

    def _run(self) -> None:
        result = self._operation.result
        self._operation.target = self._operation.result = None
        if isinstance(result, OSError):
            self.end(None, result)
        else:
            self.end(self._take(result))

    def _take(self, result: Any) -> Any:
        return result

    def _call_off(self) -> None:
        if self._operation.code != CLOSE:  # which must happen
            self._completions.cancel(self._operation)
