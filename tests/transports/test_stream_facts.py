"""What a transport says of itself, and what asyncio's own code looks up on it."""

import asyncio
import socket
import sys
from asyncio.trsock import TransportSocket
from typing import Any

import pytest

import loopcore
from tests.transports.recorder import Recorder, opened, receive, receive_all, run, settle, tcp_pair, unix_pair, waiting

Loop = asyncio.AbstractEventLoop


async def test_a_transport_is_an_asyncio_transport() -> None:
    async with opened(Recorder()) as (transport, _):
        assert isinstance(transport, asyncio.Transport)
        assert isinstance(transport, asyncio.ReadTransport)
        assert isinstance(transport, asyncio.WriteTransport)
        assert not isinstance(transport, asyncio.DatagramTransport)
        assert transport._start_tls_compatible


@pytest.mark.covers("Transport.get_extra_info('peername', 'sockname', 'socket', default)")
async def test_extra_info_names_the_socket_and_both_addresses() -> None:
    async with opened(Recorder(), tcp_pair) as (transport, peer):
        sock = transport.get_extra_info("socket")
        assert isinstance(sock, TransportSocket)
        assert sock.family == socket.AF_INET
        assert transport.get_extra_info("sockname") == peer.getpeername()
        assert transport.get_extra_info("peername") == peer.getsockname()
        assert transport.get_extra_info("nothing") is None
        assert transport.get_extra_info("nothing", 5) == 5
        names = transport.get_extra_info("sockname"), transport.get_extra_info("peername")
        transport.close()
        await settle()
        assert (transport.get_extra_info("sockname"), transport.get_extra_info("peername")) == names
        assert sock.fileno() == -1
        assert transport.get_protocol() is None


async def test_what_was_written_is_sent_before_the_socket_is_shut_down() -> None:
    async with opened(Recorder()) as (transport, peer):
        shown = transport.get_extra_info("socket")
        transport.write(b"last words")
        shown.shutdown(socket.SHUT_WR)
        assert await receive_all(peer) == b"last words"
        assert not transport.is_closing()
        peer.send(b"answer")
        await settle()
        transport.abort()
        await settle()
        with pytest.raises(OSError, match="Bad file descriptor"):
            shown.shutdown(socket.SHUT_WR)


@pytest.mark.differs(
    "EventLoop.connect_accepted_socket",
    "EventLoop.create_connection(sock)",
    why="TCP_NODELAY is set on every TCP socket; asyncio does not set it if the socket's `proto` is 0, the default.",
)
async def test_nagles_algorithm_is_off(loop: Loop, backend_name: str) -> None:
    for accepted in (True, False):
        near, far = tcp_pair()  # accepted by a listener whose `proto` is 0, as is that of `near`
        with far:
            transport, _ = await (
                loop.connect_accepted_socket(Recorder, near)
                if accepted
                else loop.create_connection(Recorder, sock=near)
            )
            off = transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            assert bool(off) == (backend_name != "asyncio")
            transport.abort()
            await settle()


async def test_the_representation_tells_state_and_descriptor() -> None:
    protocol = Recorder()
    async with opened(protocol) as (transport, peer):
        fd = transport.get_extra_info("socket").fileno()
        await settle()
        assert f"fd={fd} read=polling write=<idle, bufsize=0>" in repr(transport)
        transport.pause_reading()
        assert "read=idle" in repr(transport)
        transport.write(b"x" * 3_000_000)
        assert "write=<polling, bufsize=" in repr(transport)
        transport.close()
        assert f"Transport closing fd={fd} read=idle write=<polling" in repr(transport)
        await receive_all(peer)
        await protocol.seen("lost")
        await settle()
        assert f"Transport closed fd={fd}" in repr(transport)


async def test_a_socket_is_closed_when_connection_lost_was_called() -> None:
    protocol = Recorder()
    inside: list[int] = []
    async with opened(protocol) as (transport, _):
        sock = transport.get_extra_info("socket")
        fd = sock.fileno()
        protocol.react["lost"] = lambda: inside.append(sock.fileno())
        transport.close()
        await settle()
        assert inside == [fd]
        assert sock.fileno() == -1
        assert transport._sock is None


async def test_the_empty_waiter_of_sendfile_waits_until_all_is_sent() -> None:
    async with opened(Recorder()) as (transport, peer):
        transport.write(b"small")
        assert await receive(peer, 5) == b"small"
        await transport._make_empty_waiter()
        with pytest.raises(RuntimeError, match="Empty waiter is already set"):
            transport._make_empty_waiter()
        with pytest.raises(RuntimeError, match="unable to write; sendfile is in progress"):
            transport.write(b"x")
        with pytest.raises(RuntimeError, match="sendfile is in progress"):
            transport.writelines([b"x"])
        transport._reset_empty_waiter()
        transport.write(b"x" * 3_000_000)
        waiter = transport._make_empty_waiter()
        assert not waiter.done()
        assert len(await receive(peer, 3_000_000)) == 3_000_000
        await waiter
        transport._reset_empty_waiter()
        transport.write(b"end")
        assert await receive(peer, 3) == b"end"


def test_what_was_written_is_sent_although_the_run_has_been_ended_by_an_exception(loop: Any) -> None:
    async def write_and_exit() -> None:
        transport.write(b"fatal")
        raise SystemExit(3)

    near, far = unix_pair()
    with far:
        transport, protocol = run(loop, loop.create_connection(Recorder, sock=near))
        with pytest.raises(SystemExit):
            loop.run_until_complete(write_and_exit())
        assert waiting(far) == b"fatal"
        transport.close()
        run(loop, protocol.seen("lost"))


@pytest.mark.loopcore_only
def test_nothing_of_the_program_runs_when_that_is_sent(loop: Any) -> None:
    async def write_and_exit() -> None:
        transport.write(b"fatal")
        loop.queue_microtask(ran.append, "microtask")
        raise SystemExit(3)

    ran: list[str] = []
    near, far = unix_pair()
    with far:
        transport, protocol = run(loop, loop.create_connection(Recorder, sock=near))
        with pytest.raises(SystemExit):
            loop.run_until_complete(write_and_exit())
        assert (waiting(far), ran) == (b"fatal", [])
        transport.close()
        run(loop, protocol.seen("lost"))
    assert ran == ["microtask"]


@pytest.mark.differs(
    "Transport.write",
    why="Writes of a tick are sent together at its end and count as buffered until then; asyncio sends each at once. "
    "Data written while no tick runs is sent by the next run or `close` of the loop, and `os._exit` loses it: "
    "`loop.flush()` sends at once.",
)
@pytest.mark.loopcore_only
@pytest.mark.skipif(sys.platform != "linux", reason="macOS has no SOCK_SEQPACKET")
async def test_writes_of_one_tick_leave_in_one_call(loop: Any) -> None:
    # SOCK_SEQPACKET keeps the boundaries of the sends.
    from loopcore.transports.opening import open_stream

    protocol = Recorder()
    near, peer = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    near.setblocking(False)
    peer.setblocking(False)
    with peer:
        transport = open_stream(loop, near, protocol)
        await protocol.seen("made")
        transport.write(b"header ")
        transport.write(bytearray(b"body "))
        transport.writelines([b"1 ", memoryview(b"2 ")])
        assert transport.get_write_buffer_size() == 16
        assert peer_sees(peer) is None
        await asyncio.sleep(0)
        assert peer_sees(peer) == b"header body 1 2 "
        assert peer_sees(peer) is None
        transport.write(b"next ")
        transport.close()
        assert peer_sees(peer) == b"next "
        await protocol.seen("lost")


@pytest.mark.loopcore_only
def test_what_is_written_between_two_runs_leaves_when_it_is_flushed_or_with_the_next(loop: Any) -> None:
    near, peer = unix_pair()
    with peer:
        transport, _ = loop.run_until_complete(loop.create_connection(asyncio.Protocol, sock=near))
        transport.write(b"flushed")
        assert peer_sees(peer) is None
        loop.flush()
        assert peer_sees(peer) == b"flushed"
        transport.write(b"later")
        run(loop, asyncio.sleep(0))
        assert peer_sees(peer) == b"later"
        transport.close()
        run(loop, settle())


@pytest.mark.loopcore_only
async def test_what_passes_the_join_limit_does_not_wait_for_the_end_of_the_tick() -> None:
    async with opened(Recorder()) as (transport, peer):
        transport.write(b"x" * 65536)
        assert transport.get_write_buffer_size() == 65536
        transport.write(b"y")
        assert transport.get_write_buffer_size() == 0
        assert await receive(peer, 65537) == b"x" * 65536 + b"y"


def peer_sees(peer: socket.socket) -> bytes | None:
    try:
        return peer.recv(65536)
    except BlockingIOError:
        return None


@pytest.mark.differs(
    "Transport.resume_reading",
    why="After `eof_received` has returned True, the end is not reported again; asyncio does so at each resume.",
)
async def test_the_end_of_the_stream_is_reported_once(loop: Loop) -> None:
    protocol = Recorder()
    protocol.keep_open = True
    async with opened(protocol) as (transport, peer):
        peer.shutdown(socket.SHUT_WR)
        await protocol.seen("eof")
        transport.pause_reading()
        transport.resume_reading()
        await settle(20)
        assert protocol.kinds().count("eof") == (1 if isinstance(loop, loopcore.EventLoop) else 2)
