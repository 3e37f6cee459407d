"""What a program gives to be written, as something that can be kept until it is sent.

Sizes are in bytes. Thread: any.
"""

from typing import Any, Final

from loopcore.transports.driver import Buffer

COPY_LIMIT: Final = 4096
"""Bytes below which a copy is cheaper than a view."""


def immutable(data: Any) -> Buffer:
    """Return `data` as something that nobody can change; copied unless it is certain that nobody can.

    Raises TypeError for what is not bytes, bytearray or memoryview.
    """
    if type(data) is bytes:
        return data
    if isinstance(data, memoryview):
        # `readonly` would not do: a read-only view may lie over a bytearray.
        if type(data.obj) is bytes and data.c_contiguous and data.nbytes > COPY_LIMIT:
            return data.cast("B")
    elif not isinstance(data, (bytes, bytearray)):
        raise TypeError(f"data argument must be a bytes-like object, not {type(data).__name__!r}")
    with memoryview(data) as view:  # given back at once, also where references are not counted
        return view.tobytes()  # not what a subclass makes of itself
