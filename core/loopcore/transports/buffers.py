"""Data given to `write`, kept safely until it is sent.

Sizes are in bytes. Thread: any.
"""

from typing import Any, Final, TypeAlias

Buffer: TypeAlias = "bytes | memoryview"
"""An item of a write queue: never changes once queued, C-contiguous, its length in bytes."""

COPY_LIMIT: Final = 4096
"""Bytes below which a copy is cheaper than a view."""

VECTOR_LIMIT: Final = 1024
"""Most items in one vectored send (IOV_MAX on Linux, the BSDs and macOS). Small items beyond that are joined."""
JOINED_LIMIT: Final = 1024 * 1024
"""Joining limit: VECTOR_LIMIT items are joined if together they have at most this many bytes."""


def immutable(data: Any) -> Buffer:
    """Return `data` as an immutable buffer; copied unless it is certain that nothing can change it.

    Raises TypeError if `data` is not bytes, bytearray or memoryview.
    """
    if type(data) is bytes:
        return data
    if isinstance(data, memoryview):
        # Testing `readonly` would not suffice: a read-only view may lie over a bytearray.
        if type(data.obj) is bytes and data.c_contiguous and data.nbytes > COPY_LIMIT:
            return data.cast("B")
    elif not isinstance(data, (bytes, bytearray)):
        raise TypeError(f"data argument must be a bytes-like object, not {type(data).__name__!r}")
    with memoryview(data) as view:  # released at once, also without reference counting
        return view.tobytes()  # bypasses a subclass's __bytes__


def join_last(queue: list[Buffer]) -> None:
    """Join the last `VECTOR_LIMIT` items of a queue if they are small.

    Each send removes at most that many items from the front of the list, which moves all the others: with a million
    items, that would take most of the time.
    """
    queue[-VECTOR_LIMIT:] = join_small(queue[-VECTOR_LIMIT:])


def join_small(items: list[Buffer]) -> list[Buffer]:
    """Return `items` with each run of `VECTOR_LIMIT` joined where they are small."""
    result: list[Buffer] = []
    for start in range(0, len(items), VECTOR_LIMIT):
        part = items[start : start + VECTOR_LIMIT]
        result += [b"".join(part)] if sum(map(len, part)) <= JOINED_LIMIT else part
    return result
