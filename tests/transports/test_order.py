"""In which order a protocol hears of things, whatever peer and program do; asyncio's own loop is the oracle.

A peer sends, resets, half-closes and closes at random; the program pauses, resumes, writes, closes, aborts and changes
its protocol. A protocol that was promised the order of docs.python.org's "state machine" must find it kept:

    connection_made once, and first; connection_lost at most once, and last
    no data after eof_received, none after `abort` or (without TLS) `close`, none between `pause_reading` and
    `resume_reading`
    a protocol that was replaced hears nothing more
    what is scheduled in data_received runs before connection_lost
"""

import asyncio
import random
import socket
import ssl
from typing import Any

import pytest

from tests.transports.recorder import reset, settle, tcp_pair
from tests.transports.tls_support import Peer, client_context, connect

SEEDS = range(40)
STEPS = 12


class Watched(asyncio.Protocol):
    """Notes each breach of the order as it happens."""

    def __init__(self) -> None:
        self.transport: Any = None
        self.breaches: list[str] = []
        self.heard: list[str] = []
        self.ended = ""
        """What has been done that forbids further data."""
        self.paused = self.replaced = False
        self.scheduled = 0
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def expect(self, condition: bool, breach: str) -> None:
        if not condition:
            self.breaches.append(f"{breach} in {self.heard}")

    def hear(self, event: str) -> None:
        self.expect(not self.replaced, f"{event} for a protocol that was replaced")
        self.expect("lost" not in self.heard, f"{event} after connection_lost")
        self.heard.append(event)

    def connection_made(self, transport: Any) -> None:
        self.expect(self.heard == [], "connection_made was not the first")
        self.hear("made")
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.expect(data != b"", "empty data")
        self.expect("made" in self.heard, "data before connection_made")
        self.expect(not self.ended, f"data after {self.ended}")
        self.expect(not self.paused, "data while reading is paused")
        self.expect("eof" not in self.heard, "data after eof_received")
        self.hear("data")
        self.scheduled += 1
        asyncio.get_running_loop().call_soon(self.catch_up)

    def catch_up(self) -> None:
        self.scheduled -= 1

    def eof_received(self) -> None:
        self.expect("made" in self.heard, "eof before connection_made")
        self.expect(self.ended != "abort", "eof after abort")
        self.expect("eof" not in self.heard, "a second eof")
        self.hear("eof")

    def connection_lost(self, exc: BaseException | None) -> None:
        self.expect("made" in self.heard, "connection_lost without connection_made")
        self.expect(self.scheduled == 0, "connection_lost overtook what data_received has scheduled")
        self.hear("lost")
        if not self.lost.done():
            self.lost.set_result(None)


class Program:
    """What one run does to its transport, and its peer to the socket, by the numbers of one seed."""

    def __init__(self, seed: int, secure: bool) -> None:
        self.dice = random.Random(seed)
        self.secure = secure
        self.protocol = Watched()
        self.protocols = [self.protocol]

    async def run(self, transport: Any, far: socket.socket, peer: Peer | None) -> list[str]:
        self.peer, self.far = peer, far
        self.transport = transport
        deeds = [self.send, self.send, self.pause, self.resume, self.write, self.write, self.replace]
        ends = [self.close, self.abort, self.half_close, self.reset, self.end_session]
        for step in range(STEPS):
            last = step >= STEPS // 2 and self.dice.random() < 1 / 3
            await self.dice.choice(ends if last else deeds)()
            if self.far.fileno() < 0:
                break
            # Without a pause in between, the next deed happens in the same tick.
            await settle(self.dice.choice((0, 0, 1, 3)))
        if self.dice.random() < 1 / 2:
            await self.resume()
        if self.far.fileno() >= 0:
            self.far.close()
        await settle(self.dice.choice((0, 2, 5)))
        self.transport.abort()
        self.protocol.ended = "abort"
        await self.protocol.lost
        await settle()
        return [breach for protocol in self.protocols for breach in protocol.breaches]

    # Of the peer

    async def send(self) -> None:
        data = b"x" * self.dice.choice((1, 100, 5000))
        try:
            if self.peer is None:
                self.far.send(data)
            else:
                self.peer.tls.write(data)
                self.far.send(self.peer.outgoing.read())
        except OSError:
            self.far.close()

    async def half_close(self) -> None:
        try:
            self.far.shutdown(socket.SHUT_WR)
        except OSError:
            self.far.close()

    async def reset(self) -> None:
        await self.send()
        if self.far.fileno() >= 0:
            reset(self.far)

    async def end_session(self) -> None:
        if self.peer is None:
            self.far.close()
            return
        try:
            await self.peer.notify()
        except OSError:
            self.far.close()

    # Of the program

    def in_pieces(self) -> bool:
        """Tell whether this is a TLS transport of asyncio whose connection is lost: it cannot be called any more."""
        return getattr(self.transport, "_ssl_protocol", self) is None

    async def pause(self) -> None:
        if self.in_pieces():
            return
        self.transport.pause_reading()
        self.protocol.paused = True

    async def resume(self) -> None:
        if self.in_pieces():
            return
        self.protocol.paused = False
        self.transport.resume_reading()

    async def write(self) -> None:
        if self.in_pieces():
            return
        self.transport.write(b"y" * self.dice.choice((1, 1000, 100_000)))

    async def replace(self) -> None:
        if "lost" in self.protocol.heard:
            return
        old, self.protocol = self.protocol, Watched()
        self.protocols.append(self.protocol)
        self.protocol.heard = [event for event in old.heard if event != "data"]
        self.protocol.ended, self.protocol.paused = old.ended, old.paused
        self.protocol.lost = old.lost
        self.transport.set_protocol(self.protocol)
        old.replaced = True

    async def close(self) -> None:
        self.transport.close()
        if not self.secure:  # asyncio's TLS hands over what comes until all is sent
            self.protocol.ended = self.protocol.ended or "close"

    async def abort(self) -> None:
        self.transport.abort()
        self.protocol.ended = "abort"


@pytest.mark.reports_errors  # OpenSSL complains of records that were cut off
@pytest.mark.parametrize("seed", SEEDS)
async def test_the_order_is_kept_without_tls(seed: int) -> None:
    near, far = tcp_pair()
    far.setblocking(False)
    with far:
        program = Program(seed, secure=False)
        transport, _ = await asyncio.get_running_loop().connect_accepted_socket(lambda: program.protocol, near)
        assert await program.run(transport, far, None) == []


@pytest.mark.reports_errors
@pytest.mark.parametrize("seed", SEEDS)
async def test_the_order_is_kept_under_tls(seed: int) -> None:
    near, far = tcp_pair()
    with far:
        program = Program(seed, secure=True)
        peer = Peer(far, client_context(), server_side=False)
        connecting = asyncio.ensure_future(connect(program.protocol, near, server_side=True))
        await asyncio.gather(connecting, peer.handshake())
        assert await program.run(connecting.result(), far, peer) == []


async def test_what_comes_with_the_end_of_the_handshake_is_handled_before_the_loss() -> None:
    """A client that sends a request in its last part of the handshake, then resets: aiohttp's server took up the
    request after `connection_lost`, and found itself taken apart."""
    near, far = tcp_pair()
    with far:
        protocol = Watched()
        peer = Peer(far, client_context(), server_side=False)
        connecting = asyncio.ensure_future(connect(protocol, near, server_side=True))
        await asyncio.gather(connecting, answer_and_reset(peer))
        await protocol.lost
        assert protocol.breaches == []
        assert protocol.heard == ["made", "data", "lost"]


async def answer_and_reset(peer: Peer) -> None:
    while True:
        try:
            peer.tls.do_handshake()
            break
        except ssl.SSLWantReadError:
            await peer.flush()
            await peer.fetch()
    peer.tls.write(b"GET / HTTP/1.1\r\n\r\n")
    await peer.flush()
    reset(peer.sock)


@pytest.mark.loopcore_only
async def test_what_was_held_back_is_not_handed_over_when_the_connection_is_lost() -> None:
    near, far = tcp_pair()
    with far:
        protocol = Watched()
        peer = Peer(far, client_context(), server_side=False)
        connecting = asyncio.ensure_future(connect(protocol, near, server_side=True))
        await asyncio.gather(connecting, peer.handshake())
        transport = connecting.result()
        transport.set_read_buffer_limits(high=1 << 16)
        transport.pause_reading()
        await peer.send(b"too late")
        while not transport.get_read_buffer_size():
            await asyncio.sleep(0)
        reset(far)
        transport.resume_reading()
        transport._ssl_protocol._carrier.abort()  # as by a write that fails
        await protocol.lost
        assert protocol.breaches == []
        assert protocol.heard == ["made", "lost"]
