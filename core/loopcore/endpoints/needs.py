"""Protocols for what the endpoints need from services and transports, each as narrow as possible.

An endpoint gets these in its constructor and never sees the loop. They are structural: the services and
the transports match them without importing them, and a test passes in a fake of three lines.

Thread: the loop's own, for everything here.
"""

import asyncio
import socket
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    from loopcore.endpoints.tls import TlsSettings

AddressInfo: TypeAlias = tuple[int, int, int, str, tuple[Any, ...]]
"""Family, type, protocol, canonical name and address: one row of getaddrinfo(3)."""

ProtocolFactory: TypeAlias = Callable[[], asyncio.BaseProtocol]
Connection: TypeAlias = tuple[asyncio.Transport, Any]
DatagramConnection: TypeAlias = tuple[asyncio.DatagramTransport, Any]
"""A transport, and the protocol that the factory returned."""
CreateFuture: TypeAlias = Callable[[], asyncio.Future[Any]]


class NameResolver(Protocol):
    """getaddrinfo(3), off the loop's thread. Raises socket.gaierror."""

    async def getaddrinfo(
        self,
        host: Any,
        port: Any,
        *,
        family: int = 0,
        type: int = 0,  # noqa: A002 - asyncio's name
        proto: int = 0,
        flags: int = 0,
    ) -> list[Any]: ...


class SocketConnector(Protocol):
    """connect(2) without blocking the loop.

    If it is cancelled, it stops watching `sock` before it raises, so that the caller may close
    the socket at once.
    """

    async def sock_connect(self, sock: socket.socket, address: Any) -> None: ...


class CallScheduler(Protocol):
    """The part of the loop with which the TLS layer schedules its handshake and its timeouts."""

    def call_soon(self, callback: Callable[..., object], *args: Any) -> asyncio.Handle: ...

    def call_later(self, delay: float, callback: Callable[..., object], *args: Any) -> asyncio.TimerHandle: ...

    def time(self) -> float: ...

    def get_debug(self) -> bool: ...

    def call_exception_handler(self, context: dict[str, Any]) -> None: ...


class CreateTask(Protocol):
    """Starts a coroutine on the loop."""

    def __call__(self, coro: Coroutine[Any, Any, Any]) -> "asyncio.Future[Any]": ...


class TransportFactory(Protocol):
    """Creates the plain transport of a connected, non-blocking socket, which owns the socket from then on."""

    def __call__(
        self,
        sock: socket.socket,
        protocol: asyncio.BaseProtocol,
        *,
        waiter: "asyncio.Future[Any] | None" = None,
        extra: dict[str, Any] | None = None,
        server: Any = None,
    ) -> asyncio.Transport: ...


class DatagramTransportFactory(Protocol):
    """Creates the transport of a non-blocking datagram socket, which owns the socket from then on."""

    def __call__(
        self,
        sock: socket.socket,
        protocol: asyncio.BaseProtocol,
        address: Any = None,
        *,
        waiter: "asyncio.Future[Any] | None" = None,
        extra: dict[str, Any] | None = None,
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
