"""Memory: the port's receive buffer, and the pieces of memory that are lent.

Received data goes into one buffer and is copied out exactly (docs/adr/0011 has the figures), so that an idle connection
costs no memory and a short message no large allocation. A Receive with `lend` gets a separate piece
instead, and gives it back after use.
"""

from typing import Final

LARGEST: Final = 120 * 1024
"""The most bytes of one result: with its header such a `bytes` is below malloc's mmap threshold (docs/adr/0011)."""

KEPT_PIECES: Final = 32
"""Pieces that were given back and wait for the next Receive; more than these are freed."""


class LentPiece:
    """A piece with received data. `view` is no longer valid after `give_back`."""

    __slots__ = ("view", "_memory", "_piece")

    def __init__(self, memory: "Memory", piece: bytearray, size: int) -> None:
        self._memory: Memory = memory
        self._piece: bytearray | None = piece
        self.view: memoryview = memoryview(piece)[:size]

    def give_back(self) -> None:
        """Let the port use the piece again. A second call has no effect."""
        piece = self._piece
        if piece is None:
            return
        self._piece = None
        try:
            self.view.release()
        except BufferError:
            return  # another view of it still exists: the piece is not reused
        self._memory.take_back(piece)


class Memory:
    """The receive buffer of a port, and the pieces that are not lent at the moment. Thread: the loop's own."""

    __slots__ = ("whole", "vector", "pieces")

    def __init__(self) -> None:
        self.whole: memoryview = memoryview(bytearray(LARGEST))
        self.vector: list[memoryview] = [self.whole]
        """The vector for readv(2) if a whole buffer may come."""
        self.pieces: list[bytearray] = []

    def up_to(self, limit: int) -> list[memoryview]:
        """Return the buffer, as a vector of one, for at most `limit` bytes."""
        return self.vector if limit >= LARGEST else [self.whole[:limit]]

    def piece(self, limit: int) -> bytearray:
        """Return separate memory for `limit` bytes, or for fewer if that is a lot."""
        limit = min(limit, LARGEST)
        pieces = self.pieces
        if pieces and len(pieces[len(pieces) - 1]) >= limit:
            return pieces.pop()
        return bytearray(limit)

    def take_back(self, piece: bytearray) -> None:
        """Keep `piece` for a later call of `piece`."""
        if len(self.pieces) < KEPT_PIECES:
            self.pieces.append(piece)
