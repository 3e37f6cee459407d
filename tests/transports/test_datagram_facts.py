"""What a datagram transport says of itself, how it ends, and who owns its socket."""

import asyncio
import contextvars
import gc
import socket
import warnings
import weakref
from asyncio.trsock import TransportSocket
from typing import Any

import pytest

from tests.transports.datagram_support import ANY_PORT, DatagramRecorder, drain, endpoint, udp_socket
from tests.transports.recorder import run, settle

Loop = asyncio.AbstractEventLoop


async def test_a_datagram_transport_is_asyncios() -> None:
    async with endpoint(DatagramRecorder(), ANY_PORT) as transport:
        assert isinstance(transport, asyncio.DatagramTransport | asyncio.Transport)
        assert isinstance(transport, asyncio.BaseTransport)


@pytest.mark.loopcore_only
async def test_a_datagram_transport_is_both_kinds_of_asyncios() -> None:
    """asyncio's own is both since Python 3.12; its tests ask for the one, its documentation for the other."""
    async with endpoint(DatagramRecorder(), ANY_PORT) as transport:
        assert isinstance(transport, asyncio.DatagramTransport)
        assert isinstance(transport, asyncio.Transport)


@pytest.mark.covers("DatagramTransport.get_extra_info('peername', 'sockname', 'socket', default)")
async def test_extra_info_names_the_socket_and_both_addresses() -> None:
    with udp_socket() as peer:
        async with endpoint(DatagramRecorder(), ANY_PORT, peer.getsockname()) as transport:
            sock = transport.get_extra_info("socket")
            assert isinstance(sock, TransportSocket)
            assert sock.type == socket.SOCK_DGRAM
            assert transport.get_extra_info("sockname") == sock.getsockname()
            assert transport.get_extra_info("peername") == peer.getsockname()
            assert transport.get_extra_info("nothing", 5) == 5
        async with endpoint(DatagramRecorder(), ANY_PORT) as transport:
            assert transport.get_extra_info("peername") is None


async def test_the_socket_is_closed_for_those_who_run_after_connection_lost() -> None:
    async with endpoint(DatagramRecorder(), ANY_PORT) as transport:
        sock = transport.get_extra_info("socket")
        transport.close()
        await asyncio.sleep(0)
        assert sock.fileno() == -1


async def test_the_representation_tells_state_and_descriptor() -> None:
    async with endpoint(DatagramRecorder(), ANY_PORT) as transport:
        fd = transport.get_extra_info("socket").fileno()
        await settle()
        assert f"DatagramTransport fd={fd} read=polling write=<idle, bufsize=0>>" in repr(transport)
        transport.close()
        assert f"DatagramTransport closing fd={fd} read=idle" in repr(transport)
        await settle()
        assert f"DatagramTransport closed fd={fd}" in repr(transport)


@pytest.mark.covers("DatagramTransport.close", "DatagramTransport.is_closing")
async def test_the_protocol_is_called_in_order(loop: Loop) -> None:
    protocol = DatagramRecorder()
    transport, returned = await loop.create_datagram_endpoint(lambda: protocol, ANY_PORT)
    assert returned is protocol
    assert protocol.transport is transport
    transport.close()
    transport.close()
    assert transport.is_closing()
    assert protocol.kinds() == ["made"]
    await protocol.seen("lost")
    await settle()
    assert protocol.events == [("made",), ("lost", None)]


async def test_the_socket_is_closed_once_and_after_connection_lost(loop: Loop) -> None:
    protocol = DatagramRecorder()
    transport, _ = await loop.create_datagram_endpoint(lambda: protocol, ANY_PORT)
    sock = transport.get_extra_info("socket")
    protocol.react["lost"] = lambda: protocol.note("fd", sock.fileno() >= 0)
    transport.close()
    await protocol.seen("fd")
    assert protocol.events[-1] == ("fd", True)
    await settle()
    assert sock.fileno() == -1


async def test_nothing_is_received_after_close() -> None:
    protocol = DatagramRecorder()
    with udp_socket() as peer:
        async with endpoint(protocol, ANY_PORT) as transport:
            protocol.react["datagram"] = transport.close
            for data in (b"1", b"2", b"3"):
                peer.sendto(data, transport.get_extra_info("sockname"))
            await protocol.seen("lost")
            assert protocol.datagrams() == [b"1"]


async def test_sending_on_a_lost_transport_goes_nowhere_and_is_said_in_the_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with udp_socket() as peer:
        async with endpoint(DatagramRecorder(), remote_addr=peer.getsockname()) as transport:
            transport.abort()
            for _ in range(4):
                transport.sendto(b"x")
            assert not caplog.records
            transport.sendto(b"x")
            assert "socket.send() raised exception" in caplog.text
            with pytest.raises(BlockingIOError):
                peer.recv(10)


@pytest.mark.differs(
    "DatagramTransport.sendto",
    why="On a closed, unconnected transport it drops the datagram and returns None; asyncio sends it until "
    "`connection_lost` is called, and then raises AttributeError.",
)
@pytest.mark.loopcore_only
async def test_sending_on_a_closed_transport_without_a_peer_goes_nowhere() -> None:
    """asyncio calls methods of its socket and its loop, which are None at last."""
    with udp_socket() as peer:
        async with endpoint(DatagramRecorder(), ANY_PORT) as transport:
            transport.close()
            transport.sendto(b"x", peer.getsockname())
            await settle()
            transport.sendto(b"x", peer.getsockname())
            transport.sendto(b"x")
            with pytest.raises(BlockingIOError):
                peer.recv(10)


def test_a_transport_that_is_dropped_warns_and_closes_its_socket(loop: Loop) -> None:
    async def main() -> Any:
        transport, _ = await loop.create_datagram_endpoint(asyncio.DatagramProtocol, ANY_PORT)
        transport.pause_reading()
        return transport

    transport = run(loop, main())
    name = transport.get_extra_info("sockname")
    fd = transport.get_extra_info("socket").fileno()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        del transport
        gc.collect()
    # In the same cycle as the transport, the socket may be found, and warn, before it.
    (text,) = [str(warning.message) for warning in caught if "unclosed transport <" in str(warning.message)]
    assert f"fd={fd}" in text
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(name)  # it is free again


@pytest.mark.loopcore_only  # asyncio's is in a cycle with its own bound method
def test_nothing_keeps_a_lost_transport_alive(loop: Loop) -> None:
    async def main() -> list[weakref.ref[Any]]:
        with udp_socket() as peer:
            protocol = DatagramRecorder()
            transport, _ = await loop.create_datagram_endpoint(lambda: protocol, remote_addr=peer.getsockname())
            transport.sendto(b"x")
            peer.sendto(b"y", transport.get_extra_info("sockname"))
            await protocol.seen("datagram")
            transport.close()
            await protocol.seen("lost")
            protocol.transport = None  # the program's own end of the cycle
            return [weakref.ref(transport), weakref.ref(protocol)]

    gc.collect()
    gc.disable()
    try:
        refs = run(loop, main())
        run(loop, settle())
        assert [ref() for ref in refs] == [None, None]
    finally:
        gc.enable()


async def test_the_descriptor_is_the_transports(loop: Loop) -> None:
    async with endpoint(DatagramRecorder(), ANY_PORT) as transport:
        fd = transport.get_extra_info("socket").fileno()
        with pytest.raises(RuntimeError, match="is used by transport"):
            loop.add_reader(fd, print)
        with pytest.raises(RuntimeError, match="is used by transport"):
            loop.remove_writer(fd)


@pytest.mark.covers("DatagramTransport.get_protocol", "DatagramTransport.set_protocol")
async def test_the_protocol_can_be_exchanged() -> None:
    first, second = DatagramRecorder(), DatagramRecorder()
    with udp_socket() as peer:
        async with endpoint(first, ANY_PORT) as transport:
            assert transport.get_protocol() is first
            transport.set_protocol(second)
            assert transport.get_protocol() is second
            peer.sendto(b"x", transport.get_extra_info("sockname"))
            await second.seen("datagram")
            transport.close()
            await second.seen("lost")
            assert first.kinds() == ["made"]


async def test_a_method_that_is_exchanged_later_is_the_one_called() -> None:
    protocol: Any = DatagramRecorder()
    with udp_socket() as peer:
        async with endpoint(protocol, ANY_PORT) as transport:
            protocol.datagram_received = lambda data, addr: protocol.note("other", data)
            peer.sendto(b"x", transport.get_extra_info("sockname"))
            await protocol.seen("other")


async def test_the_protocol_runs_in_the_context_that_made_the_transport() -> None:
    variable = contextvars.ContextVar("variable", default="outside")
    protocol = DatagramRecorder()
    seen: list[str] = []
    for kind in ("made", "datagram", "error"):
        protocol.react[kind] = lambda: seen.append(variable.get())
    variable.set("inside")
    with udp_socket() as peer:
        name = peer.getsockname()
        async with endpoint(protocol, remote_addr=name) as transport:
            variable.set("later")
            peer.sendto(b"x", transport.get_extra_info("sockname"))
            await protocol.seen("datagram")
            transport.sendto(b"y")
            await drain(peer, 1)
            peer.connect(name)  # to itself: it hears nobody else, and keeps its port
            transport.sendto(b"z")
            await protocol.seen("error")
    assert seen == ["inside"] * 3


@pytest.mark.loopcore_only
async def test_five_hundred_cycles_leave_nothing_behind(loop: Any) -> None:
    async def cycle(name: Any) -> None:
        async with endpoint(DatagramRecorder(), ANY_PORT, name) as transport:
            transport.sendto(b"x")

    with udp_socket() as peer:
        for _ in range(20):
            await cycle(peer.getsockname())
        gc.collect()
        gc.disable()
        try:
            before = len(gc.get_objects())
            for _ in range(500):
                await cycle(peer.getsockname())
            assert len(gc.get_objects()) < before + 250
            assert len(loop._readiness.watched()) <= 1
        finally:
            gc.enable()
