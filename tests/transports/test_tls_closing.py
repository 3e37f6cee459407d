"""How a TLS connection ends well: close_notify both ways, everything written has arrived, and nobody waits for long."""

import asyncio
import contextlib
import socket

import pytest

from tests.transports.recorder import Recorder, run, settle, tcp_pair
from tests.transports.tls_support import is_oracle, secured

MUCH = 1 << 23


@pytest.mark.covers("SSLTransport.close")
async def test_closing_sends_what_was_written_and_then_close_notify() -> None:
    protocol = Recorder()
    async with secured(protocol) as (transport, peer):
        transport.write(b"last words")
        transport.close()
        transport.close()
        assert await peer.receive() == b"last words"
        assert peer.was_notified()
        assert "lost" not in protocol.kinds()  # the peer's is awaited
        await peer.notify()
        await protocol.seen("lost")
        assert protocol.lost_with() is None
        assert protocol.kinds()[-1] == "lost"


async def test_closing_waits_for_a_slow_peer() -> None:
    protocol = Recorder()
    async with secured(protocol, make_pair=tcp_pair) as (transport, peer):
        transport.write(b"x" * MUCH)
        transport.close()
        await settle(20)
        assert "lost" not in protocol.kinds()
        assert len(await peer.receive()) == MUCH
        assert peer.was_notified()
        await peer.notify()
        await protocol.seen("lost")
        assert protocol.lost_with() is None


async def test_the_peers_close_notify_closes_the_connection() -> None:
    protocol = Recorder()
    protocol.react["eof"] = lambda: protocol.transport.write(b"good bye")
    async with secured(protocol) as (transport, peer):
        await peer.send(b"bye")
        await peer.notify()
        assert await peer.receive() == b"good bye"
        assert peer.was_notified()
        await protocol.seen("lost")
        assert protocol.events == [("made",), ("data", b"bye"), ("eof",), ("lost", None)]
        assert transport.is_closing()


async def test_what_waits_for_a_slow_peer_still_arrives_after_its_close_notify() -> None:
    protocol = Recorder()
    async with secured(protocol, make_pair=tcp_pair) as (transport, peer):
        transport.write(b"x" * MUCH)
        await peer.notify()
        await protocol.seen("eof")
        assert len(await peer.receive()) == MUCH
        assert peer.was_notified()
        await protocol.seen("lost")
        assert protocol.lost_with() is None


async def test_an_end_without_close_notify_is_an_end() -> None:
    protocol = Recorder()
    async with secured(protocol, make_pair=tcp_pair) as (transport, peer):
        transport.write(b"x" * MUCH)
        await peer.send(b"bye")
        peer.sock.shutdown(socket.SHUT_WR)
        await protocol.seen("eof")
        assert len(await peer.receive(MUCH)) == MUCH  # half closed: what was written still arrives
        await protocol.seen("lost")
        assert [event for event in protocol.events if event[0] not in ("pause", "resume")] == [
            ("made",),
            ("data", b"bye"),
            ("eof",),
            ("lost", None),
        ]


@pytest.mark.differs(
    "SSLTransport.write",
    why="What a protocol writes in `eof_received` is sent also if the peer has ended without close_notify; asyncio "
    "drops it.",
)
async def test_an_end_without_close_notify_is_answered(backend_name: str) -> None:
    protocol = Recorder()
    protocol.react["eof"] = lambda: protocol.transport.write(b"good bye")
    async with secured(protocol) as (_, peer):
        peer.sock.shutdown(socket.SHUT_WR)
        assert await peer.receive() == (b"" if backend_name == "asyncio" else b"good bye")
        await protocol.seen("lost")
        assert protocol.events == [("made",), ("eof",), ("lost", None)]


async def test_an_end_without_close_notify_waits_for_a_paused_protocol() -> None:
    protocol = Recorder()
    async with secured(protocol) as (transport, peer):
        transport.pause_reading()
        await peer.send(b"bye")
        peer.sock.shutdown(socket.SHUT_WR)
        await settle(10)
        assert protocol.kinds() == ["made"]
        transport.resume_reading()
        await protocol.seen("lost")
        assert protocol.events == [("made",), ("data", b"bye"), ("eof",), ("lost", None)]


async def test_a_tls_connection_cannot_be_kept_half_open(caplog: pytest.LogCaptureFixture) -> None:
    protocol = Recorder()
    protocol.keep_open = True
    async with secured(protocol) as (_, peer):
        await peer.notify()
        await protocol.seen("lost")
        assert protocol.lost_with() is None
    assert "returning true from eof_received() has no effect when using ssl" in caplog.text


@pytest.mark.differs(
    "SSLTransport.close",
    why="The protocol receives nothing more, and nothing is read until all is sent: a peer that sends and does not "
    "read is waited for up to `ssl_shutdown_timeout`; asyncio delivers buffered data, then reports an error of TLS.",
)
@pytest.mark.loopcore_only
async def test_nothing_is_received_after_close() -> None:
    protocol = Recorder()
    async with secured(protocol) as (transport, peer):
        await peer.send(b"unheard")
        transport.close()
        await protocol.seen("lost")
        assert protocol.events == [("made",), ("lost", None)]


async def test_a_connection_that_is_closed_stops_downloading() -> None:
    """MagicStack/uvloop#471: the peer sends without end and never says good bye; it must not be listened to."""
    protocol = Recorder()
    async with secured(protocol, server_side=False, make_pair=tcp_pair) as (transport, peer):

        async def send() -> None:
            while True:
                await peer.send(b"x" * 65536)

        sending = asyncio.ensure_future(send())
        await protocol.seen("data")
        transport.close()
        before = len(protocol.received())
        with pytest.raises(ConnectionError):  # long before the 30 seconds of the shutdown timeout
            await sending
        await protocol.seen("lost")
        assert len(protocol.received()) - before <= 1 << 18  # asyncio hands over what it has received


async def test_a_connection_that_is_closed_while_paused_stops_downloading() -> None:
    protocol = Recorder()
    async with secured(protocol, server_side=False, make_pair=tcp_pair) as (transport, peer):
        transport.pause_reading()
        sending = asyncio.ensure_future(peer.send(b"x" * (1 << 26)))
        await settle(20)
        transport.close()
        with pytest.raises(ConnectionError):
            await sending
        await protocol.seen("lost")
        assert protocol.received() == b""


async def test_closing_while_paused_hears_the_peers_good_bye() -> None:
    protocol = Recorder()
    async with secured(protocol) as (transport, peer):
        transport.pause_reading()
        transport.close()
        assert await peer.receive() == b""
        await peer.notify()
        await protocol.seen("lost")
        assert protocol.lost_with() is None


@pytest.mark.covers("EventLoop.connect_accepted_socket(ssl, ssl_shutdown_timeout)")
async def test_a_peer_that_never_says_good_bye_is_waited_for_no_longer_than_the_timeout() -> None:
    protocol = Recorder()
    async with secured(protocol, ssl_shutdown_timeout=0.05) as (transport, _):
        transport.close()
        await protocol.seen("lost")
        assert isinstance(protocol.lost_with(), TimeoutError)
        assert str(protocol.lost_with()) == "SSL shutdown timed out"


async def test_a_peer_that_never_reads_is_waited_for_no_longer_than_the_timeout() -> None:
    protocol = Recorder()
    async with secured(protocol, ssl_shutdown_timeout=0.05, make_pair=tcp_pair) as (transport, _):
        transport.write(b"x" * MUCH)
        transport.close()
        await protocol.seen("lost")
        assert str(protocol.lost_with()) == "SSL shutdown timed out"


async def test_a_peer_that_leaves_instead_of_saying_good_bye_is_not_waited_for() -> None:
    protocol = Recorder()
    async with secured(protocol) as (transport, peer):
        transport.close()
        await peer.receive()
        peer.sock.close()
        await protocol.seen("lost")
        assert protocol.lost_with() is None


@pytest.mark.covers("SSLTransport.abort")
async def test_aborting_drops_what_was_written() -> None:
    protocol = Recorder()
    async with secured(protocol, make_pair=tcp_pair) as (transport, peer):
        transport.write(b"x" * MUCH)
        transport.abort()
        assert transport.is_closing()
        await protocol.seen("lost")
        assert protocol.lost_with() is None
        assert len(await peer.receive()) < MUCH
        assert not peer.was_notified()
        transport.abort()
        await settle()
        assert protocol.kinds().count("lost") == 1


@pytest.mark.covers("SSLTransport.abort")
async def test_aborting_sends_what_the_kernel_takes() -> None:
    protocol = Recorder()
    async with secured(protocol, make_pair=tcp_pair) as (transport, peer):
        transport.write(b"the answer")
        transport.abort()
        assert await peer.receive() == b"the answer"
        assert not peer.was_notified()
        await protocol.seen("lost")
        assert protocol.lost_with() is None


async def test_aborting_a_connection_that_is_closing_ends_it() -> None:
    protocol = Recorder()
    async with secured(protocol) as (transport, _):
        transport.close()
        await settle()
        assert "lost" not in protocol.kinds()
        transport.abort()
        await protocol.seen("lost")
        assert protocol.lost_with() is None


@pytest.mark.parametrize("how", ["close", "abort"])
@pytest.mark.parametrize("event", ["made", "data", "eof", "pause", "resume"])
async def test_a_callback_may_end_the_connection(loop: asyncio.AbstractEventLoop, event: str, how: str) -> None:
    if is_oracle(loop) and (event, how) == ("resume", "abort"):
        pytest.skip("asyncio's plain transport then calls connection_lost of a protocol it has let go")
    protocol = Recorder()
    protocol.react[event] = lambda: getattr(protocol.transport, how)()
    async with secured(protocol, make_pair=tcp_pair) as (transport, peer):
        if event in ("pause", "resume"):
            transport.write(b"x" * MUCH)
            transport.write(b"x" * MUCH)
        with contextlib.suppress(ConnectionError):
            await peer.send(b"x")
            if event == "eof":
                await peer.notify()
            await peer.receive()
            await peer.notify()
        peer.sock.close()
        await protocol.seen("lost")
        await settle()
        assert protocol.kinds().count("lost") == 1
        assert protocol.kinds()[-1] == "lost"


async def test_writes_to_a_closed_connection_go_nowhere_and_are_mentioned(caplog: pytest.LogCaptureFixture) -> None:
    protocol = Recorder()
    async with secured(protocol) as (transport, peer):
        transport.close()
        for _ in range(5):
            transport.write(b"x")
        assert not caplog.records
        transport.writelines([b"x", b"y"])
        assert await peer.receive() == b""
        assert transport.get_write_buffer_size() == 0
    assert caplog.text.count("SSL connection is closed") == 1


@pytest.mark.loopcore_only  # asyncio's transport never closes
def test_a_protocol_that_ends_the_run_as_it_is_resumed_does_not_hold_up_close_notify(
    loop: asyncio.AbstractEventLoop,
) -> None:
    protocol = Recorder()

    def leave() -> None:
        raise SystemExit

    async def main() -> None:
        async with secured(protocol, make_pair=tcp_pair) as (transport, peer):
            transport.write(b"x" * MUCH)
            transport.close()
            protocol.react["resume"] = leave
            assert len(await peer.receive()) == MUCH
            assert peer.was_notified()
            await peer.notify()
            await protocol.seen("lost")

    task = loop.create_task(main())
    with pytest.raises(SystemExit):
        loop.run_until_complete(task)
    run(loop, task)
