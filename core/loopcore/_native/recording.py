"""For observers that record: the functions of `recording.h` in Python."""

import time
from types import FunctionType, MethodType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer


def counter() -> int:
    """Return the steps of a counter that never stops. A reader derives their length from the clock."""
    return time.monotonic_ns() >> 2


def thread_cpu_ns() -> int:
    """Return the CPU time of the calling thread, in nanoseconds."""
    return time.thread_time_ns()


def words(buffer: "WriteableBuffer") -> memoryview:
    """Return a writable buffer as words of 64 bits. The caller keeps it alive and does not resize it."""
    return memoryview(buffer).cast("B").cast("Q")


def address_of_code(what: object) -> int:
    """Return a number that stands for the code that a callback runs while that code is kept alive.

    0 for anything but a Python function, a method or a type; in C not for a function in C, either.
    """
    if type(what) is MethodType:
        what = what.__func__
    if type(what) is FunctionType:
        return id(what.__code__)
    return id(what) if isinstance(what, type) else 0
