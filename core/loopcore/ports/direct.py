"""Direct: a compiled port, whose `wait` the loop calls without going through Python.

Looking a method up by name costs about 250 instructions per wait. A backend that is a Cython `cdef class` may derive
from `DirectPort` and declare `cpdef object wait(self, object timeout)` in its `.pxd`; the loop then calls it through a
pointer. Nothing else changes. A Python class derived from such a backend still has its own `wait` called; interpreted,
this base class does nothing. docs/adr/0003 has the measurements.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:

    class Waiting(Protocol):
        """A port, as the loop waits in it."""

        def wait(self, timeout: float | None, /) -> Sequence[tuple[Any, ...]]: ...


class DirectPort:
    """Base class of compiled backends, of either port. Thread: the loop's own."""

    __slots__ = ("times_gil", "gil_steps")

    times_gil: bool
    """Whether an observer asks for `gil_steps`."""
    gil_steps: int
    """For how long the thread waited for the GIL after the last wait, in steps of `counter` of
    `loopcore/_native/recording.h`. Only a wait that released the GIL sets it, and only if the
    backend can tell."""

    def wait(self, timeout: float | None) -> Sequence[tuple[Any, ...]]:
        """Wait for at most `timeout` seconds, as in the port. The backend must override it: NotImplementedError."""
        raise NotImplementedError(f"{type(self).__name__} is a port without wait()")


def wait_in(port: "Waiting", timeout: float | None) -> Sequence[tuple[Any, ...]]:
    """Wait in a port: compiled, through a pointer if it is a DirectPort."""
    if isinstance(port, DirectPort):
        direct: DirectPort = port
        return direct.wait(timeout)
    return port.wait(timeout)
