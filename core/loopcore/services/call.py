"""Call: something the kernel or a thread does to a file or a socket, and the future of who waits for it.

The future of asyncio ends the moment it is cancelled, and who waited goes on while the kernel still reads the buffer,
and a thread still has the descriptor. This one asks for an early end, and is cancelled when the end has come: who sees
CancelledError knows that nothing is in flight, and may change the buffer and close the descriptor. `asyncio.Task` is
cancelled in the same way, so whatever cancels tasks can cancel these. What may never end by itself must be something
that a port can call off, as a connection that is being made is; regular files answer, and no other files are opened.

Thread: the loop's own.
"""

import errno
from typing import Any, Final, Protocol

from loopcore.kernel.completions import Completions
from loopcore.kernel.future import Future
from loopcore.operations import Operation

CALLED_OFF: Final = (errno.ECANCELED, errno.EINTR)
"""How a call fails that was called off."""


class Used(Protocol):
    """What a call works on, and says so."""

    def enter(self) -> None: ...

    def leave(self) -> None: ...


class Call(Future):
    """A future that, cancelled, is done only when its work is. This one has no work, and waits for `end`."""

    __slots__ = ("_asked", "_reason", "_used", "outcome", "purpose")

    def __init__(self, loop: Any, purpose: str = "") -> None:
        Future.__init__(self, loop=loop)
        self.outcome: Any = None
        """What the work gave, also if the future is cancelled; None if it failed."""
        self.purpose = purpose
        """What fails if this fails, where nobody may miss it: an error of a cancelled call is then reported."""
        self._asked = False
        self._reason: Any = None
        self._used: Used | None = None

    def hold(self, used: Used | None) -> None:
        """Use `used` until the end."""
        if used is not None:
            used.enter()
            self._used = used

    def cancel(self, msg: Any = None) -> bool:
        """Ask for the end; the future is cancelled when that has come. False if it is done."""
        if self.done():
            return False
        if not self._asked:
            self._asked = True
            self._reason = msg
            self._call_off()
        return True

    def end(self, outcome: Any, error: BaseException | None = None) -> None:
        """Settle the future: the work is done, or has failed."""
        used, self._used = self._used, None
        if used is not None:
            used.leave()
        self.outcome = outcome
        if self._asked:
            if self.purpose and error is not None and getattr(error, "errno", None) not in CALLED_OFF:
                self.get_loop().call_exception_handler(
                    {"message": f"{self.purpose} failed, and who waited was cancelled", "exception": error}
                )
            Future.cancel(self, self._reason)
        elif error is not None:
            self.set_exception(error)
        else:
            self.set_result(outcome)

    def _call_off(self) -> None:
        """Hasten the end, where it can be."""


class OperationCall(Call):
    """A call that a completion port makes; the target of its operation."""

    __slots__ = ("_certain", "_completions", "_operation")

    def __init__(self, loop: Any, purpose: str, completions: Completions, operation: Operation, certain: bool) -> None:
        Call.__init__(self, loop, purpose)
        self._completions = completions
        self._operation = operation
        self._certain = certain
        operation.target = self
        try:
            completions.submit(operation)
        except BaseException:
            operation.target = None  # no cycle to be collected
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
        if not self._certain:
            self._completions.cancel(self._operation)
