"""What the endpoints need from below, each need as narrow as it is.

An endpoint is handed these in its constructor and never sees the loop. They are structural: the services and
the transports fit them without knowing of them, and a test hands in a fake of three lines.

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
Connection: TypeAlias = tuple[asyncio.Transport, asyncio.BaseProtocol]
DatagramConnection: TypeAlias = tuple[asyncio.DatagramTransport, asyncio.BaseProtocol]
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
    """connect(2) that waits without blocking.

    When it is cancelled it gives up its interest in `sock` before it raises, so that the caller may close
    the socket at once.
    """

    async def sock_connect(self, sock: socket.socket, address: Any) -> None: ...


class CallScheduler(Protocol):
    """What the TLS layer schedules its handshake and its timeouts with."""

    def call_soon(self, callback: Callable[..., object], *args: Any) -> asyncio.Handle: ...

    def call_later(self, delay: float, callback: Callable[..., object], *args: Any) -> asyncio.TimerHandle: ...

    def time(self) -> float: ...

    def get_debug(self) -> bool: ...

    def call_exception_handler(self, context: dict[str, Any]) -> None: ...


class CreateTask(Protocol):
    """Starts a coroutine on the loop."""

    def __call__(self, coro: Coroutine[Any, Any, Any]) -> "asyncio.Future[Any]": ...


class TransportFactory(Protocol):
    """Makes the plain transport of a connected, non-blocking socket, and hands the socket over to it."""

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
    """Makes the transport of a non-blocking datagram socket, and hands the socket over to it."""

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
    """Makes a server of bound, non-blocking sockets, which it owns from now on; it does not listen yet.

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
