"""Protocols for what the endpoints need: the loop as they use it, and what makes their transports and servers.

They are structural: the loop, the transports and the server match them without importing them.

Thread: the loop's own, for everything here.
"""

import asyncio
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from loopcore.services.literals import AddressInfo, HostName, Port
from loopcore.services.transport_table import TransportTable

if TYPE_CHECKING:
    from loopcore.endpoints.tls import TlsSettings

ProtocolFactory: TypeAlias = Callable[[], asyncio.BaseProtocol]
Connection: TypeAlias = tuple[asyncio.Transport, Any]
DatagramConnection: TypeAlias = tuple[asyncio.DatagramTransport, Any]
"""A transport, and the protocol that the factory returned."""


class EndpointHost(Protocol):
    """The loop as the endpoints use it. They keep none of its methods, so a method that a program replaces is used."""

    @property
    def _transports(self) -> TransportTable: ...

    async def getaddrinfo(
        self,
        host: HostName,
        port: Port,
        *,
        family: int = 0,
        type: int = 0,  # noqa: A002 - asyncio's name
        proto: int = 0,
        flags: int = 0,
    ) -> list[AddressInfo]:
        """getaddrinfo(3), off the loop's thread. Raises socket.gaierror."""

    async def sock_connect(self, sock: socket.socket, address: Any) -> None:
        """connect(2) without blocking the loop.

        If it is cancelled, it stops watching `sock` before it raises, so that the caller may close the socket at once.
        """

    async def connect_read_pipe(self, protocol_factory: ProtocolFactory, pipe: Any) -> tuple[Any, Any]: ...

    async def connect_write_pipe(self, protocol_factory: ProtocolFactory, pipe: Any) -> tuple[Any, Any]: ...

    def create_future(self) -> asyncio.Future[Any]: ...

    def get_debug(self) -> bool: ...


class DatagramTransportFactory(Protocol):
    """Creates the transport of a non-blocking datagram socket, which owns the socket from then on."""

    def __call__(
        self,
        sock: socket.socket,
        protocol: asyncio.BaseProtocol,
        address: Any = None,
        *,
        waiter: asyncio.Future[Any] | None = None,
    ) -> asyncio.DatagramTransport: ...


class ServerFactory(Protocol):
    """Creates a server on bound, non-blocking sockets, which it owns from then on; it does not listen yet.

    `after_close` is called once, when the sockets have been closed.
    """

    def __call__(
        self,
        sockets: list[socket.socket],
        protocol_factory: ProtocolFactory,
        *,
        tls: "TlsSettings | None",
        backlog: int,
        after_close: Callable[[], None] | None = None,
    ) -> asyncio.AbstractServer: ...
