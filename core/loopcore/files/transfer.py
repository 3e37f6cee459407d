"""Reading and writing in pieces, so that a cancellation need not wait for the whole transfer."""

from typing import TYPE_CHECKING, Final

from loopcore.files.descriptor import Descriptor
from loopcore.files.port import APPEND, Port, Progress

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

FIRST_READ: Final = 64 * 1024
"""The size in bytes of the first read if the length is unknown; most files are shorter."""

READ_MOST: Final = 1024 * 1024
"""The most bytes that one call reads."""

WRITE_MOST: Final = 64 * 1024 * 1024
"""The most bytes that one call writes; an append up to this size stays in one piece."""


async def gather(port: Port, descriptor: Descriptor, offset: int, limit: int | None) -> bytes:
    """Read `limit` bytes from `offset`, or to the end if `limit` is None; fewer only at the end."""
    most = FIRST_READ if limit is None else READ_MOST
    pieces: list[bytes] = []
    got = 0
    while limit is None or got < limit:
        wanted = most if limit is None else min(limit - got, most)
        piece = await port.read(descriptor, wanted, offset + got)
        pieces.append(piece)
        got += len(piece)
        if len(piece) < wanted:
            break
        most = READ_MOST
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


async def put(port: Port, descriptor: Descriptor, data: "ReadableBuffer", offset: int, progress: Progress) -> int:
    """Write all of `data` at `offset`, and return its length; `progress` is updated as it goes."""
    with memoryview(data) as raw:
        if not raw.nbytes:
            return 0
        with raw.cast("B") as view:
            while progress.done < len(view):
                piece = view[progress.done : progress.done + WRITE_MOST]
                at = offset if offset == APPEND else offset + progress.done
                await _put_piece(port, descriptor, piece, at, progress)
            return progress.done


async def _put_piece(port: Port, descriptor: Descriptor, piece: memoryview, at: int, progress: Progress) -> None:
    step = Progress()
    in_flight = False
    try:
        await port.write(descriptor, piece, at, step)
    except GeneratorExit:
        in_flight = True  # the coroutine is dropped, but not the call: it keeps the piece, and so the buffer
        raise
    finally:
        progress.done += step.done
        progress.end = step.end
        if not in_flight:
            piece.release()
