"""The functions of loopcore's C library as Python objects, for the test that compares them with those in Python."""

from collections.abc import Callable

try:
    import cython
except ImportError:
    from loopcore import _cython as cython

if cython.compiled:
    from cython.cimports.loopcore._native.sockets import (
        copy_into,
        receive,
        receive_behind,
        receive_internet,
        receive_into,
        send_connected,
        send_internet,
        send_many,
        send_one,
    )
else:
    from loopcore._native.sockets import (
        copy_into,
        receive,
        receive_behind,
        receive_internet,
        receive_into,
        send_connected,
        send_internet,
        send_many,
        send_one,
    )

FUNCTIONS: dict[str, Callable[..., object]] = {
    "copy_into": copy_into,
    "receive": receive,
    "receive_behind": receive_behind,
    "receive_internet": receive_internet,
    "receive_into": receive_into,
    "send_connected": send_connected,
    "send_internet": send_internet,
    "send_many": send_many,
    "send_one": send_one,
}
