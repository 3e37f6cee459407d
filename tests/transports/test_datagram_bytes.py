"""Datagrams arrive: whole, in order, from and to whom they should, whatever the family."""

import asyncio
import socket
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.transports.datagram_support import (
    ANY_PORT,
    DatagramRecorder,
    drain,
    endpoint,
    udp_socket,
    unix_socket,
)
from tests.transports.recorder import settle

Loop = asyncio.AbstractEventLoop


class Echo(DatagramRecorder):
    def datagram_received(self, data: bytes, addr: Any) -> None:
        super().datagram_received(data, addr)
        self.transport.sendto(data, addr)


@pytest.mark.covers("EventLoop.create_datagram_endpoint(local_addr, remote_addr)")
@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
async def test_an_echo_comes_back(host: str) -> None:
    client, server = DatagramRecorder(), Echo()
    async with endpoint(server, (host, 0)) as serving:
        name = serving.get_extra_info("sockname")
        async with endpoint(client, remote_addr=name[:2]) as transport:
            transport.sendto(b"hello")
            await client.seen("datagram")
            assert client.events[1:] == [("datagram", b"hello", name)]
            assert server.events[1:] == [("datagram", b"hello", transport.get_extra_info("sockname"))]


async def test_an_echo_comes_back_over_unix_sockets(tmp_path: Path) -> None:
    client, server = DatagramRecorder(), Echo()
    one, two = str(tmp_path / "one"), str(tmp_path / "two")
    async with (
        endpoint(server, one, family=socket.AF_UNIX),
        endpoint(client, two, one, family=socket.AF_UNIX) as transport,
    ):
        transport.sendto(b"hello")
        await client.seen("datagram")
        assert client.events[1:] == [("datagram", b"hello", one)]
        assert server.events[1:] == [("datagram", b"hello", two)]


@pytest.mark.covers("DatagramTransport.sendto(addr)")
async def test_one_endpoint_serves_many_peers() -> None:
    with udp_socket() as one, udp_socket() as two:
        async with endpoint(DatagramRecorder(), ANY_PORT) as transport:
            transport.sendto(b"for one", one.getsockname())
            transport.sendto(b"for two", two.getsockname())
            assert await drain(one, 1) == [b"for one"]
            assert await drain(two, 1) == [b"for two"]


async def test_an_empty_datagram_is_received() -> None:
    protocol = DatagramRecorder()
    with udp_socket() as peer:
        async with endpoint(protocol, ANY_PORT) as transport:
            for data in (b"", b"x", b""):
                peer.sendto(data, transport.get_extra_info("sockname"))
            await protocol.seen("datagram", 3)
            assert protocol.datagrams() == [b"", b"x", b""]


async def test_an_empty_datagram_is_sent_from_python_3_13_on() -> None:
    with udp_socket() as peer:
        async with endpoint(DatagramRecorder(), remote_addr=peer.getsockname()) as transport:
            transport.sendto(b"")
            transport.sendto(b"x")
            if sys.version_info >= (3, 13):
                assert await drain(peer, 2) == [b"", b"x"]
            else:
                assert await drain(peer, 1) == [b"x"]


async def test_the_largest_datagram_passes_whole() -> None:
    protocol = DatagramRecorder()
    data = bytes(range(256)) * 255  # 65,280 of the 65,507 bytes that UDP over IPv4 has
    with udp_socket() as peer:
        async with endpoint(protocol, remote_addr=peer.getsockname()) as transport:
            transport.sendto(data)
            assert await drain(peer, 1) == [data]
            peer.sendto(data, transport.get_extra_info("sockname"))
            await protocol.seen("datagram")
            assert protocol.datagrams() == [data]


async def test_all_that_waits_is_received_in_order() -> None:
    protocol = DatagramRecorder()
    with udp_socket() as peer:
        async with endpoint(protocol, ANY_PORT) as transport:
            sent = [b"%d" % number for number in range(100)]
            for data in sent:
                peer.sendto(data, transport.get_extra_info("sockname"))
            await protocol.seen("datagram", 100)
            assert protocol.datagrams() == sent


@pytest.mark.parametrize("make", [bytes, bytearray, memoryview])
async def test_whatever_is_like_bytes_can_be_sent(make: Any) -> None:
    with udp_socket() as peer:
        async with endpoint(DatagramRecorder(), remote_addr=peer.getsockname()) as transport:
            transport.sendto(make(b"data"))
            assert await drain(peer, 1) == [b"data"]


@pytest.mark.parametrize("data", ["text", None, 5, [b"x"]])
async def test_anything_else_is_a_type_error(data: Any) -> None:
    async with endpoint(DatagramRecorder(), ANY_PORT) as transport:
        with pytest.raises(TypeError, match="data argument must be a bytes-like object, not"):
            transport.sendto(data, ANY_PORT)


async def test_a_connected_endpoint_sends_to_its_peer_alone() -> None:
    with udp_socket() as peer:
        name = peer.getsockname()
        async with endpoint(DatagramRecorder(), remote_addr=name) as transport:
            with pytest.raises(ValueError, match="Invalid address: must be None or"):
                transport.sendto(b"x", ("127.0.0.1", 1))
            transport.sendto(b"y", name)
            assert await drain(peer, 1) == [b"y"]


@pytest.mark.covers("EventLoop.create_datagram_endpoint(allow_broadcast)")
async def test_a_broadcasting_endpoint_hears_others_than_its_address() -> None:
    protocol = DatagramRecorder()
    with udp_socket() as peer, udp_socket() as other:
        name = peer.getsockname()
        async with endpoint(protocol, ANY_PORT, name, allow_broadcast=True) as transport:
            assert transport.get_extra_info("peername") is None
            assert transport.get_extra_info("socket").getsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST)
            transport.sendto(b"x")
            assert await drain(peer, 1) == [b"x"]
            other.sendto(b"y", transport.get_extra_info("sockname"))
            await protocol.seen("datagram")
            assert protocol.events[1:] == [("datagram", b"y", other.getsockname())]


async def test_a_socket_that_the_program_connected_sends_to_its_peer() -> None:
    ours = udp_socket()
    with udp_socket() as peer:
        ours.connect(peer.getsockname())
        async with endpoint(DatagramRecorder(), sock=ours) as transport:
            transport.sendto(b"x")
            transport.sendto(b"y", ("127.0.0.1", 1))
            assert await drain(peer, 2) == [b"x", b"y"]


@pytest.mark.differs(
    "EventLoop.create_datagram_endpoint",
    why="A socket pair is connected; asyncio treats its empty name as none and ends the transport with a TypeError.",
)
@pytest.mark.loopcore_only
async def test_a_socket_pair_is_connected_though_it_has_no_names() -> None:
    """asyncio takes the empty name for no peer, and ends the transport with a TypeError."""
    protocol = DatagramRecorder()
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    far.setblocking(False)
    with far:
        async with endpoint(protocol, sock=near) as transport:
            transport.sendto(b"x")
            assert await drain(far, 1) == [b"x"]
            far.send(b"y")
            await protocol.seen("datagram")
            assert protocol.datagrams() == [b"y"]


async def test_a_unix_endpoint_without_a_peer_sends_by_path(tmp_path: Path) -> None:
    with unix_socket(tmp_path / "peer") as peer:
        async with endpoint(DatagramRecorder(), family=socket.AF_UNIX) as transport:
            transport.sendto(b"x", str(tmp_path / "peer"))
            assert await drain(peer, 1) == [b"x"]
            await settle()


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])
async def test_many_peers_are_answered_by_the_addresses_they_are_known_by(
    loop: asyncio.AbstractEventLoop, family: socket.AddressFamily
) -> None:
    host = "127.0.0.1" if family == socket.AF_INET else "::1"
    seen: dict[bytes, Any] = {}

    class Echo(asyncio.DatagramProtocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            self.transport: Any = transport

        def datagram_received(self, data: bytes, address: Any) -> None:
            seen[data] = address
            self.transport.sendto(data, address if len(seen) % 2 else (*address,))

    try:
        transport, _ = await loop.create_datagram_endpoint(Echo, local_addr=(host, 0), family=family)
    except OSError:
        pytest.skip("this machine has no such addresses")
    address = transport.get_extra_info("sockname")
    peers = rivals(family, host)
    try:
        for each in (*range(5), *range(4, -1, -1), 0, 1, 0, 2, 0, 0):
            peer = peers[each]
            peer.sendto(b"%d" % each, address)
            data, sender = await loop.sock_recvfrom(peer, 100)
            assert (data, sender) == (b"%d" % each, address)
            assert seen[data][1] == peer.getsockname()[1]
    finally:
        for peer in peers:
            peer.close()
        transport.close()
        await asyncio.sleep(0)


def rivals(family: socket.AddressFamily, host: str) -> list[socket.socket]:
    """Return five sockets whose ports are equal modulo 64, as a table of remembered addresses might be indexed."""
    for port in range(20_000, 21_000):
        peers = [socket.socket(family, socket.SOCK_DGRAM) for _ in range(5)]
        try:
            for number, peer in enumerate(peers):
                peer.setblocking(False)
                peer.bind((host, port + 64 * number))
        except OSError:
            for peer in peers:
                peer.close()
        else:
            return peers
    raise AssertionError("no ports are free")


@pytest.mark.parametrize("keeps", [False, True])
async def test_what_a_protocol_keeps_is_not_changed_by_the_next(keeps: bool) -> None:
    kept: list[Any] = []
    hashes: list[int] = []

    class Keeper(asyncio.DatagramProtocol):
        def datagram_received(self, data: bytes, address: Any) -> None:
            hashes.append(hash(data))
            kept.append(data if keeps else memoryview(data))

    with udp_socket() as peer:
        async with endpoint(Keeper(), ANY_PORT) as transport:
            name = transport.get_extra_info("sockname")
            sent = [bytes([number]) * size for number, size in enumerate((100, 100, 90, 60, 100, 2000, 1500, 90))]
            for number, data in enumerate(sent):
                peer.sendto(data, name)
                while len(kept) <= number:
                    await asyncio.sleep(0)
            assert kept == sent
            assert hashes == [hash(data) for data in sent]


async def test_datagrams_of_many_sizes_one_after_another() -> None:
    seen: list[tuple[int, bytes, int]] = []

    class Reader(asyncio.DatagramProtocol):
        def datagram_received(self, data: bytes, address: Any) -> None:
            seen.append((len(data), data[-1:], hash(data)))

    with udp_socket() as peer:
        async with endpoint(Reader(), ANY_PORT) as transport:
            for size in (1000, 999, 600, 1000, 2000, 64, 63, 0, 500):
                data = bytes([size % 251]) * size
                peer.sendto(data, transport.get_extra_info("sockname"))
                while not seen or seen[-1] != (size, data[-1:], hash(data)):
                    await asyncio.sleep(0)
