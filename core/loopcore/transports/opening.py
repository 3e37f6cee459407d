"""Making the transport of a connected stream socket.

Calling a type takes a dict of keywords, and through `functools.partial` another one; calling a compiled function takes
none. Each connection that a server accepts would pay for it (docs/adr/0011).

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
    """Return a `StreamTransport` made with these arguments."""
    transport = StreamTransport.__new__(StreamTransport)
    transport._open(scheduler, sock, protocol, waiter, extra, server)
    return transport
