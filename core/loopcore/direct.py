"""Direct: a compiled port, in which the loop waits without going through Python.

A method that is looked up by its name and called with objects costs about 250 instructions, with each wait. A backend that is a
`cdef class` of Cython may have `DirectPort` as its base and declare `cpdef object wait(self, object timeout)` in its `.pxd`:
then the loop calls it through a pointer. Nothing else changes. A class of Python that is derived from such a
backend is asked for its own `wait`; interpreted, this is a class without anything.
"""

from collections.abc import Sequence
from typing import Any


class DirectPort:
    """The base of a compiled backend, of either port. Thread: the loop's own."""

    __slots__ = ()

    def wait(self, timeout: float | None) -> Sequence[Any]:
        """Wait, as the port's `wait` does. To be defined by the backend; this raises NotImplementedError."""
        raise NotImplementedError(f"{type(self).__name__} is a port without wait()")
