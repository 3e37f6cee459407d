"""Direct: a compiled port, in which the loop waits without going through Python.

A method that is looked up by its name costs about 250 instructions a wait. A backend that is a `cdef class` of Cython
may have `DirectPort` as its base and declare `cpdef object wait(self, object timeout)` in its `.pxd`: then the loop
calls it through a pointer. Nothing else changes. A Python class that is derived from such a backend is asked for its
own `wait`; interpreted, this base does nothing. What it is worth is in docs/adr/0003.
"""

from collections.abc import Sequence
from typing import Any


class DirectPort:
    """The base of a compiled backend, of either port. Thread: the loop's own."""

    __slots__ = ()

    def wait(self, timeout: float | None) -> Sequence[Any]:
        """Wait for `timeout` seconds, as the port does. The backend defines it: this raises NotImplementedError."""
        raise NotImplementedError(f"{type(self).__name__} is a port without wait()")
