"""The functions of loopcore's C library as Python objects, for the test that compares them with those in Python."""

from collections.abc import Callable

try:
    import cython
except ImportError:
    from loopcore import _cython as cython

if cython.compiled:
    from cython.cimports.loopcore._native import sockets
else:
    from loopcore._native import sockets

FUNCTIONS: dict[str, Callable[..., object]] = {
    "copy_into": sockets.copy_into,
    "receive": sockets.receive,
    "receive_behind": sockets.receive_behind,
    "receive_internet": sockets.receive_internet,
    "receive_into": sockets.receive_into,
    "send_connected": sockets.send_connected,
    "send_internet": sockets.send_internet,
    "send_many": sockets.send_many,
    "send_one": sockets.send_one,
}
