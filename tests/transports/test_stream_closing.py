"""How connections end: by us, by the peer, by an error; always with exactly one connection_lost."""

import asyncio
import gc
import logging
import socket
from typing import Any

import pytest

from tests.coroutines import PATIENCE
from tests.transports.recorder import (
    BufferedRecorder,
    Handled,
    Recorder,
    fill,
    opened,
    receive,
    receive_all,
    reset,
    settle,
    tcp_pair,
    unix_pair,
)

Loop = asyncio.AbstractEventLoop


@pytest.mark.covers("Transport.close", "Transport.is_closing")
async def test_close_sends_what_was_written_and_then_ends() -> None:
    protocol = Recorder()
    async with opened(protocol) as (transport, peer):
        transport.write(b"last words")
        transport.close()
        transport.close()
        assert transport.is_closing()
        assert not transport.is_reading()
        assert "lost" not in protocol.kinds(), "connection_lost was called from inside close"
        assert await receive_all(peer) == b"last words"
        await protocol.seen("lost")
    assert protocol.events == [("made",), ("lost", None)]


async def test_close_waits_for_a_slow_reader() -> None:
    protocol = Recorder()
    async with opened(protocol) as (transport, peer):
        total = fill(transport)
        transport.close()
        await settle(10)
        assert "lost" not in protocol.kinds()
        assert len(await receive_all(peer)) == total
        await protocol.seen("lost")
    assert protocol.lost_with() is None


async def test_what_is_written_while_closing_is_sent_too() -> None:
    protocol = Recorder()
    async with opened(protocol) as (transport, peer):
        total = fill(transport)
        transport.close()
        transport.write(b"postscript")
        got = await receive_all(peer)
        assert got == b"x" * total + b"postscript"


async def test_the_socket_is_closed_for_those_who_run_after_connection_lost() -> None:
    async with opened(Recorder()) as (transport, _):
        sock = transport.get_extra_info("socket")
        transport.abort()
        assert sock.fileno() >= 0
        await asyncio.sleep(0)
        assert sock.fileno() == -1


async def test_the_peer_sees_the_end_although_who_runs_next_blocks_the_loop() -> None:
    async with opened(Recorder()) as (transport, peer):
        transport.abort()
        await asyncio.sleep(0)
        peer.settimeout(PATIENCE)
        assert peer.recv(1) == b""


async def test_nothing_is_received_after_close(loop: Loop) -> None:
    protocol = Recorder()
    async with opened(protocol) as (transport, peer):
        await loop.sock_sendall(peer, b"too late")
        transport.close()
        await protocol.seen("lost")
    assert protocol.received() == b""


@pytest.mark.covers("Transport.abort")
async def test_abort_drops_what_was_not_sent() -> None:
    protocol = Recorder()
    async with opened(protocol) as (transport, peer):
        total = fill(transport)
        transport.abort()
        assert transport.get_write_buffer_size() == 0
        assert transport.is_closing()
        await protocol.seen("lost")
        assert len(await receive_all(peer)) < total
    assert protocol.lost_with() is None


async def test_what_was_written_just_before_abort_is_sent() -> None:
    async with opened(Recorder()) as (transport, peer):
        transport.write(b"last ")
        transport.write(b"words")
        transport.abort()
        assert await receive_all(peer) == b"last words"


async def test_end_of_file_closes_unless_the_protocol_keeps_it_open() -> None:
    protocol = Recorder()
    async with opened(protocol) as (_, peer):
        peer.shutdown(socket.SHUT_WR)
        await protocol.seen("lost")
    assert protocol.events == [("made",), ("eof",), ("lost", None)]


@pytest.mark.parametrize("make_pair", [unix_pair, tcp_pair])
@pytest.mark.parametrize("make", [Recorder, BufferedRecorder])
async def test_a_half_closed_connection_still_sends(loop: Loop, make: Any, make_pair: Any) -> None:
    protocol = make()
    protocol.keep_open = True
    async with opened(protocol, make_pair) as (transport, peer):
        await loop.sock_sendall(peer, b"question")
        peer.shutdown(socket.SHUT_WR)
        await protocol.seen("eof")
        assert not transport.is_closing()
        transport.write(b"answer")
        assert await receive(peer, 6) == b"answer"
        await settle(10)
        assert protocol.kinds().count("eof") == 1
        transport.close()
        await protocol.seen("lost")
    assert protocol.received() == b"question"
    assert protocol.lost_with() is None


@pytest.mark.covers("Transport.write_eof", "Transport.can_write_eof")
@pytest.mark.parametrize("make_pair", [unix_pair, tcp_pair])
async def test_write_eof_ends_our_half_and_leaves_theirs(loop: Loop, make_pair: Any) -> None:
    protocol = Recorder()
    async with opened(protocol, make_pair) as (transport, peer):
        assert transport.can_write_eof()
        transport.write(b"all of it")
        transport.write_eof()
        transport.write_eof()
        assert await receive_all(peer) == b"all of it"
        with pytest.raises(RuntimeError, match=r"Cannot call write\(\) after write_eof\(\)"):
            transport.write(b"more")
        with pytest.raises(RuntimeError, match=r"after write_eof\(\)"):
            transport.writelines([b"more"])
        await loop.sock_sendall(peer, b"reply")
        await protocol.until(lambda: protocol.received() == b"reply")
        assert not transport.is_closing()


async def test_write_eof_waits_until_all_is_sent() -> None:
    protocol = Recorder()
    async with opened(protocol) as (transport, peer):
        total = fill(transport)
        transport.write_eof()
        assert len(await receive_all(peer)) == total
        assert not transport.is_closing()


async def test_write_eof_after_close_does_nothing() -> None:
    protocol = Recorder()
    async with opened(protocol) as (transport, peer):
        transport.write(b"bye")
        transport.close()
        transport.write_eof()
        assert await receive_all(peer) == b"bye"
        await protocol.seen("lost")


async def test_a_reset_by_the_peer_is_the_reason_of_the_loss(loop: Loop) -> None:
    handled = Handled(loop)
    protocol = Recorder()
    async with opened(protocol, tcp_pair) as (_, peer):
        reset(peer)
        await protocol.seen("lost")
    assert isinstance(protocol.lost_with(), ConnectionResetError)
    assert handled.contexts == []


@pytest.mark.parametrize("make_pair", [unix_pair, tcp_pair])
async def test_writing_to_a_peer_that_has_gone_loses_the_connection_in_silence(loop: Loop, make_pair: Any) -> None:
    handled = Handled(loop)
    protocol = Recorder()
    protocol.keep_open = True
    async with opened(protocol, make_pair) as (transport, peer):
        peer.close()
        await protocol.until(lambda: "eof" in protocol.kinds() or "lost" in protocol.kinds())
        while not transport.is_closing():
            transport.write(b"x" * 100)
            await asyncio.sleep(0)
        await protocol.seen("lost")
    assert isinstance(protocol.lost_with(), BrokenPipeError | ConnectionResetError)
    assert handled.contexts == []


async def test_writes_to_a_lost_connection_are_dropped_with_a_warning_in_the_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    protocol = Recorder()
    with caplog.at_level(logging.WARNING):
        async with opened(protocol) as (transport, _):
            transport.abort()
            for _ in range(4):
                transport.write(b"x")
            assert caplog.records == []
            transport.write(b"")
            assert caplog.records == []
            transport.write(b"x")
            assert [record.getMessage() for record in caplog.records] == ["socket.send() raised exception."]
            await protocol.seen("lost")
            transport.write(b"x")
            assert len(caplog.records) == 2


@pytest.mark.parametrize("make", [Recorder, BufferedRecorder])
@pytest.mark.parametrize("how", ["close", "abort"])
async def test_nothing_follows_a_close_inside_data_received(loop: Loop, make: Any, how: str) -> None:
    protocol = make()
    async with opened(protocol, tcp_pair) as (transport, peer):
        protocol.react["data"] = getattr(transport, how)
        await loop.sock_sendall(peer, b"x" * 100_000)
        peer.shutdown(socket.SHUT_WR)
        await protocol.seen("lost")
        await settle()
    assert protocol.kinds().count("data") == 1
    assert protocol.kinds()[len(protocol.kinds()) - 1] == "lost"
    assert "eof" not in protocol.kinds()


@pytest.mark.parametrize("event", ["made", "eof", "lost", "pause", "resume"])
@pytest.mark.parametrize("how", ["close", "abort"])
async def test_closing_inside_any_callback_loses_the_connection_once(
    loop: Loop, event: str, how: str, backend_name: str
) -> None:
    if backend_name == "asyncio" and event == "resume":
        pytest.skip("asyncio's loop calls connection_lost a second time")
    handled = Handled(loop)
    protocol = Recorder()

    def end() -> None:
        if event != "lost" or how == "close":  # aborting a lost connection is an error of asyncio's own
            getattr(protocol.transport, how)()

    protocol.react[event] = end
    async with opened(protocol) as (transport, peer):
        if event == "lost":
            transport.close()
        elif event == "eof":
            peer.shutdown(socket.SHUT_WR)
        elif event in ("pause", "resume"):
            transport.write(b"x" * 3_000_000)
            receiving = asyncio.ensure_future(receive_all(peer))
        await protocol.seen("lost")
        await settle()
        if event in ("pause", "resume"):
            await receiving
    assert protocol.kinds().count("lost") == 1
    assert handled.contexts == []


def let_go(held: list[Any]) -> None:
    held.clear()
    gc.collect()


@pytest.mark.loopcore_only
def test_what_was_written_before_the_loop_is_closed_is_sent(loop: Any) -> None:
    ours, peers = socket.socketpair()
    ours.setblocking(False)

    async def connect() -> Any:
        return await loop.connect_accepted_socket(asyncio.Protocol, ours)

    held = [loop.run_until_complete(connect())[0]]
    held[0].write(b"goodbye")
    loop.close()
    with peers:
        assert peers.recv(100) == b"goodbye"
    with pytest.warns(ResourceWarning, match="unclosed transport"):  # as with asyncio: the program never closed it
        let_go(held)
