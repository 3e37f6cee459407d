"""The Python twins of `chunks.pxd`, for the pure build: same names, same contracts."""

from typing import Any


def cut(chunk: bytes | bytearray, start: int, end: int) -> bytes:
    """Return `chunk[start:end]` as bytes, copied at most once."""
    if type(chunk) is bytes:
        return chunk[start:end]
    with memoryview(chunk) as view:
        return bytes(view[start:end])


def find(chunk: bytes | bytearray, wanted: Any, start: int) -> int:
    """Return the index of `wanted` in `chunk`, at or after `start`; -1 if there is none."""
    return chunk.find(wanted, start)
