"""Connections that end by an error of the protocol, by an interrupt, or because nobody holds them any more."""

import asyncio
import gc
import logging
import socket
import sys
import warnings
import weakref
from typing import Any

import pytest

from tests.transports.recorder import (
    BufferedRecorder,
    Handled,
    Recorder,
    opened,
    receive,
    receive_all,
    run,
    settle,
    tcp_pair,
    unix_pair,
)

Loop = asyncio.AbstractEventLoop


@pytest.mark.parametrize("failing", ["data", "eof"])
async def test_an_error_of_the_protocol_ends_the_connection_with_it(loop: Loop, failing: str) -> None:
    handled = Handled(loop)
    protocol = Recorder()

    def fail() -> None:
        raise ZeroDivisionError

    protocol.react[failing] = fail
    async with opened(protocol) as (_, peer):
        await loop.sock_sendall(peer, b"data")
        peer.shutdown(socket.SHUT_WR)
        await protocol.seen("lost")
    name = {"data": "data_received", "eof": "eof_received"}[failing]
    assert handled.messages() == [f"Fatal error: protocol.{name}() call failed."]
    assert isinstance(protocol.lost_with(), ZeroDivisionError)


@pytest.mark.parametrize("failing", ["data", "eof"])
@pytest.mark.parametrize("recorder", [Recorder, BufferedRecorder])
@pytest.mark.reports_errors
async def test_what_a_protocol_wrote_before_its_error_is_sent(loop: Loop, failing: str, recorder: type[Any]) -> None:
    protocol = recorder()

    def fail() -> None:
        protocol.transport.write(b"the ")
        protocol.transport.write(b"answer")
        raise ZeroDivisionError

    protocol.react[failing] = fail
    async with opened(protocol, tcp_pair) as (_, peer):
        await loop.sock_sendall(peer, b"question")
        if failing == "eof":
            peer.shutdown(socket.SHUT_WR)
        assert await receive_all(peer) == b"the answer"
        await protocol.seen("lost")
        assert isinstance(protocol.lost_with(), ZeroDivisionError)


@pytest.mark.reports_errors
async def test_what_get_buffer_wrote_before_a_useless_buffer_is_sent(loop: Loop) -> None:
    protocol = BufferedRecorder()
    protocol.buffer = b"read only"
    async with opened(protocol, tcp_pair) as (transport, peer):
        protocol.react["get_buffer"] = lambda: transport.write(b"the answer")
        await loop.sock_sendall(peer, b"question")
        assert await receive(peer, 10) == b"the answer"
        await protocol.seen("lost")
        assert isinstance(protocol.lost_with(), (TypeError, BufferError))


@pytest.mark.reports_errors
async def test_a_protocol_that_aborts_and_then_fails_hears_of_an_abort(loop: Loop) -> None:
    protocol = Recorder()

    def fail() -> None:
        protocol.transport.abort()
        raise ZeroDivisionError

    protocol.react["data"] = fail
    async with opened(protocol, tcp_pair) as (_, peer):
        await loop.sock_sendall(peer, b"question")
        await protocol.seen("lost")
        assert protocol.lost_with() is None


async def test_an_error_in_connection_lost_is_reported_and_the_socket_closed(loop: Loop) -> None:
    handled = Handled(loop)
    protocol = Recorder()

    def fail() -> None:
        raise ZeroDivisionError

    protocol.react["lost"] = fail
    async with opened(protocol) as (transport, peer):
        sock = transport.get_extra_info("socket")
        transport.close()
        await settle()
        assert sock.fileno() == -1
        assert await receive_all(peer) == b""
    assert len(handled.contexts) == 1


def test_an_interrupt_in_a_callback_ends_the_run_and_not_the_connection(loop: Loop) -> None:
    protocol = Recorder()

    def interrupt() -> None:
        protocol.react.clear()
        raise KeyboardInterrupt

    async def main(transport: Any, peer: socket.socket) -> None:
        await loop.sock_sendall(peer, b"again")
        await protocol.until(lambda: b"again" in protocol.received())
        transport.close()
        await protocol.seen("lost")

    near, peer = unix_pair()
    with peer:
        transport, _ = run(loop, loop.connect_accepted_socket(lambda: protocol, near))
        protocol.react["data"] = interrupt
        peer.send(b"once")
        with pytest.raises(KeyboardInterrupt):
            loop.run_forever()
        run(loop, main(transport, peer))
    assert protocol.received() == b"onceagain"


def test_a_transport_that_is_dropped_warns_and_closes_its_socket(loop: Loop) -> None:
    async def main() -> tuple[Any, socket.socket]:
        near, peer = unix_pair()
        transport, _ = await loop.connect_accepted_socket(asyncio.Protocol, near)
        transport.pause_reading()
        return transport, peer

    transport, peer = run(loop, main())
    fd = transport.get_extra_info("socket").fileno()
    with peer, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        del transport
        gc.collect()
        assert peer.recv(1) == b""
    # In the same cycle as the transport, the socket may be found, and warn, before it.
    texts = [str(warning.message) for warning in caught if "unclosed transport <" in str(warning.message)]
    assert len(texts) == 1
    assert f"fd={fd}" in texts[0]


def test_a_warning_that_is_an_error_goes_to_the_hook_of_unraisable_ones_only(
    loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> Any:
        near, peer = unix_pair()
        peer.close()
        transport, _ = await loop.connect_accepted_socket(asyncio.Protocol, near)
        transport.pause_reading()
        return transport

    unraisable: list[str] = []
    uncaught: list[str] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda args: unraisable.append(str(args.exc_value)))
    monkeypatch.setattr(sys, "excepthook", lambda kind, error, trace: uncaught.append(str(error)))
    transport = run(loop, main())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        del transport
        gc.collect()
    assert len([text for text in unraisable if "unclosed transport <" in text]) == 1
    assert uncaught == []


@pytest.mark.loopcore_only  # asyncio's is in a cycle with its own bound method
def test_nothing_keeps_a_lost_connection_alive(loop: Loop) -> None:
    async def main() -> list[weakref.ref[Any]]:
        near, peer = tcp_pair()
        with peer:
            protocol = Recorder()
            transport, _ = await loop.connect_accepted_socket(lambda: protocol, near)
            transport.write(b"x" * 10)
            await loop.sock_sendall(peer, b"data")
            await protocol.seen("data")
            peer.shutdown(socket.SHUT_WR)
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


def test_closing_after_the_loop_was_closed_says_so(loop_factory: Any) -> None:
    async def main() -> Any:
        near, peer = unix_pair()
        transport, _ = await asyncio.get_running_loop().connect_accepted_socket(asyncio.Protocol, near)
        await settle()
        transport.write(b"x" * 3_000_000)
        return transport, peer

    loop = loop_factory()
    transport, peer = run(loop, main())
    loop.close()
    transport.close()
    assert transport.is_closing()
    with peer, pytest.raises(RuntimeError, match="Event loop is closed"):
        transport.abort()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # of the transport, whose socket stayed open
        del transport, loop
        gc.collect()


@pytest.mark.loopcore_only
async def test_nothing_is_sent_behind_a_flush_that_has_failed(loop: Loop, caplog: pytest.LogCaptureFixture) -> None:
    """What is large is offered at once: that would fail as well, or leave a gap."""
    loop.set_debug(True)
    caplog.set_level(logging.DEBUG, "asyncio")
    protocol = Recorder()
    async with opened(protocol) as (transport, _):
        transport.get_extra_info("socket").shutdown(socket.SHUT_WR)
        transport.write(b"queued")
        transport.write(bytearray(100_000))
        await protocol.seen("lost")
    assert isinstance(protocol.lost_with(), BrokenPipeError)
    assert len([record for record in caplog.records if "write error" in record.message]) == 1
