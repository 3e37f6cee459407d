"""What a program gives to be written, as something that can be kept until it is sent.

Sizes are in bytes. Thread: any.
"""

from typing import Any, Final

from loopcore.transports.driver import Buffer

COPY_LIMIT: Final = 4096
"""Bytes below which a copy is cheaper than a view."""

MANY: Final = 1024
"""Items that one vectored send takes at most (IOV_MAX on Linux, the BSDs and macOS). Of more, small ones are joined."""
JOINED_LIMIT: Final = 1024 * 1024
"""Bytes of so many items that are small."""


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


def join_last(queue: list[Buffer]) -> None:
    """Join the last `MANY` items of a queue if they are small.

    Each send takes so many at most off the front of the list, which moves all others: of a million items that would be
    most of the time.
    """
    queue[-MANY:] = join_small(queue[-MANY:])


def join_small(items: list[Buffer]) -> list[Buffer]:
    """Return `items` with `MANY` at a time joined where they are small."""
    result: list[Buffer] = []
    for start in range(0, len(items), MANY):
        part = items[start : start + MANY]
        result += [b"".join(part)] if sum(map(len, part)) <= JOINED_LIMIT else part
    return result
