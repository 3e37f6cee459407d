"""What is known of an accepted connection without asking the kernel, and what is asked."""

import asyncio
import socket
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

Loop = asyncio.AbstractEventLoop


class Kept(asyncio.Protocol):
    """Keeps its transport, also when it is lost."""

    transport: Any

    def __init__(self) -> None:
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended.set_result(None)


async def with_accepted(host: str, family: int, look: Callable[[Kept, socket.socket], Awaitable[None]]) -> None:
    """Serve at `host`, connect twice, and have `look` look at the second connection and at its client."""
    loop = asyncio.get_running_loop()
    made: list[Kept] = []

    def factory() -> Kept:
        made.append(Kept())
        return made[-1]

    server = await loop.create_server(factory, host, 0, family=family)
    port = server.sockets[0].getsockname()[1]
    clients = []
    for count in (1, 2):
        client = socket.create_connection(("::1" if family == socket.AF_INET6 else "127.0.0.1", port))
        clients.append(client)
        while len(made) < count or not hasattr(made[-1], "transport"):
            await asyncio.sleep(0)
    await look(made[-1], clients[-1])
    for protocol in made:
        protocol.transport.close()
        await protocol.ended
    for client in clients:
        client.close()
    server.close()
    await server.wait_closed()


ADDRESSES = [
    ("127.0.0.1", socket.AF_INET),
    ("0.0.0.0", socket.AF_INET),
    pytest.param("::1", socket.AF_INET6, marks=pytest.mark.skipif(not socket.has_ipv6, reason="needs IPv6")),
]


@pytest.mark.parametrize(("host", "family"), ADDRESSES)
def test_names_are_the_kernels(loop: Loop, host: str, family: int) -> None:
    async def look(accepted: Kept, client: socket.socket) -> None:
        transport = accepted.transport
        assert transport.get_extra_info("peername") == client.getsockname()
        assert transport.get_extra_info("sockname") == client.getpeername()
        sock = transport.get_extra_info("socket")
        assert (sock.family, sock.type, sock.gettimeout()) == (family, socket.SOCK_STREAM, 0.0)
        assert sock.getsockname() == client.getpeername()
        assert transport.get_extra_info("socket") is sock

    loop.run_until_complete(with_accepted(host, family, look))


@pytest.mark.parametrize(("host", "family"), ADDRESSES)
def test_names_are_known_when_the_connection_is_lost(loop: Loop, host: str, family: int) -> None:
    async def look(accepted: Kept, client: socket.socket) -> None:
        ours, theirs = client.getsockname(), client.getpeername()
        client.close()
        await accepted.ended
        await asyncio.sleep(0)
        assert accepted.transport.get_extra_info("peername") == ours
        assert accepted.transport.get_extra_info("sockname") == theirs
        assert accepted.transport.get_extra_info("socket").fileno() == -1

    loop.run_until_complete(with_accepted(host, family, look))


@pytest.mark.skipif(not socket.has_ipv6 or sys.platform != "linux", reason="binds IPv4's any address as IPv6")
def test_the_any_address_of_ipv4_in_ipv6_is_no_connections_name(loop: Loop) -> None:
    async def main() -> None:
        listener = socket.socket(socket.AF_INET6)
        listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        listener.bind(("::ffff:0.0.0.0", 0))
        made: asyncio.Future[Kept] = loop.create_future()

        class Told(Kept):
            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                super().connection_made(transport)
                made.set_result(self)

        server = await loop.create_server(Told, sock=listener)
        with socket.create_connection(("127.0.0.1", listener.getsockname()[1])):
            accepted = await made
            accepted.transport.close()
            await accepted.ended
            assert accepted.transport.get_extra_info("sockname")[0] == "::ffff:127.0.0.1"
        server.close()
        await server.wait_closed()

    loop.run_until_complete(main())


def test_small_writes_leave_at_once_on_every_connection(loop: Loop) -> None:
    async def look(accepted: Kept, client: socket.socket) -> None:
        sock = accepted.transport.get_extra_info("socket")
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0

    loop.run_until_complete(with_accepted("127.0.0.1", socket.AF_INET, look))
