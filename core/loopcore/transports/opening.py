"""How the transport of a connected stream socket is made.

A type is called with a dict of keywords, through `functools.partial` with another one; a function that is compiled is
not. Each connection that a server accepts would pay for it (docs/adr/0012).

Thread: the loop's own.
"""

import asyncio
import socket
from typing import TYPE_CHECKING, Any

from loopcore.transports.stream import StreamTransport

if TYPE_CHECKING:
    from loopcore.kernel.scheduler import Scheduler
    from loopcore.transports.server import Server


def open_stream(
    scheduler: "Scheduler",
    sock: socket.socket,
    protocol: asyncio.BaseProtocol,
    waiter: "asyncio.Future[None] | None" = None,
    extra: dict[str, Any] | None = None,
    server: "Server | None" = None,
) -> StreamTransport:
    """Return `StreamTransport` of these arguments. Raises as its constructor does."""
    transport = StreamTransport.__new__(StreamTransport)
    transport._open(scheduler, sock, protocol, waiter, extra, server)
    return transport
