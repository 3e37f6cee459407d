"""TransportSocket: the view of a transport's socket that programs get."""

import socket
import weakref
from asyncio import trsock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from loopcore.transports.lifecycle import Connection


class TransportSocket(trsock.TransportSocket):
    """asyncio's TransportSocket, except that `shutdown` first sends what was written, as if it had been sent at once.

    Thread: the loop's own.
    """

    __slots__ = ("_transport",)

    def __init__(self, sock: socket.socket, transport: "Connection") -> None:
        super().__init__(sock)
        self._transport = weakref.ref(transport)

    def shutdown(self, how: int) -> None:
        """Shut down one half of the connection, or both. Raises OSError, as shutdown(2) does."""
        transport = self._transport()
        if transport is not None:
            transport._driver.flush()
        super().shutdown(how)
