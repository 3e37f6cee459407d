"""Protocols: switched in the middle of a stream, with buffers of their own, and with mistakes."""

import asyncio
import contextvars
import socket
import sys
from typing import Any

import pytest

from tests.transports.recorder import BufferedRecorder, Handled, Recorder, opened, receive, run, tcp_pair, unix_pair

Loop = asyncio.AbstractEventLoop


async def test_the_protocol_hears_of_the_connection_before_data_and_before_the_caller(loop: Loop) -> None:
    protocol = Recorder()
    near, peer = unix_pair()
    with peer:
        peer.send(b"early")
        transport, _ = await loop.connect_accepted_socket(lambda: protocol, near)
        assert protocol.kinds()[:1] == ["made"]
        assert protocol.transport is transport
        await protocol.seen("data")
        transport.close()
        await protocol.seen("lost")
    assert protocol.events == [("made",), ("data", b"early"), ("lost", None)]


@pytest.mark.covers("Transport.set_protocol", "Transport.get_protocol")
async def test_set_protocol_hands_over_what_comes_next(loop: Loop) -> None:
    first, second = Recorder(), Recorder()
    async with opened(first) as (transport, peer):
        await loop.sock_sendall(peer, b"one")
        await first.until(lambda: first.received() == b"one")
        assert transport.get_protocol() is first
        transport.set_protocol(second)
        assert transport.get_protocol() is second
        await loop.sock_sendall(peer, b"two")
        await second.until(lambda: second.received() == b"two")
        transport.close()
        await second.seen("lost")
    assert first.events == [("made",), ("data", b"one")]
    assert second.events == [("data", b"two"), ("lost", None)]


@pytest.mark.parametrize("kinds", [(Recorder, BufferedRecorder), (BufferedRecorder, Recorder)])
async def test_protocols_of_both_kinds_can_be_switched_inside_data_received(loop: Loop, kinds: Any) -> None:
    first, second = kinds[0](), kinds[1]()
    async with opened(first) as (transport, peer):
        first.react["data"] = lambda: transport.set_protocol(second)
        second.react["data"] = lambda: transport.set_protocol(first)
        for i in range(6):
            await loop.sock_sendall(peer, b"%d" % i)
            of = (first, second)[i % 2]
            await of.until(lambda of=of, i=i: of.received().endswith(b"%d" % i))  # type: ignore[misc]
    assert first.received() == b"024"
    assert second.received() == b"135"


async def test_a_switch_while_writing_is_paused_tells_the_new_protocol_to_resume() -> None:
    first, second = Recorder(), Recorder()
    async with opened(first) as (transport, peer):
        transport.write(b"x" * 3_000_000)
        assert first.kinds() == ["made", "pause"]
        transport.set_protocol(second)
        assert len(await receive(peer, 3_000_000)) == 3_000_000
        await second.seen("resume")


async def test_get_buffer_is_asked_without_a_size_and_updated_with_what_came(loop: Loop) -> None:
    protocol = BufferedRecorder(size=4)
    async with opened(protocol) as (_, peer):
        await loop.sock_sendall(peer, b"abcdefghij")
        await protocol.until(lambda: protocol.received() == b"abcdefghij")
    asked = [event for event in protocol.events if event[0] == "get_buffer"]
    assert set(asked) == {("get_buffer", -1)}
    assert [event[1] for event in protocol.events if event[0] == "data"] == [b"abcd", b"efgh", b"ij"]


@pytest.mark.parametrize(
    ("buffer", "message"),
    [
        (bytearray(), "Fatal error: protocol.get_buffer() call failed."),
        (None, "Fatal error: protocol.get_buffer() call failed."),
        (b"read only", "Fatal read error on socket transport"),
    ],
)
async def test_a_useless_buffer_ends_the_connection(loop: Loop, buffer: Any, message: str) -> None:
    handled = Handled(loop)
    protocol = BufferedRecorder()
    protocol.buffer = buffer
    async with opened(protocol) as (_, peer):
        await loop.sock_sendall(peer, b"data")
        await protocol.seen("lost")
    assert handled.messages() == [message]
    if buffer == bytearray():
        assert str(protocol.lost_with()) == "get_buffer() returned an empty buffer"


@pytest.mark.parametrize(
    ("event", "message"),
    [
        ("get_buffer", "Fatal error: protocol.get_buffer() call failed."),
        ("data", "Fatal error: protocol.buffer_updated() call failed."),
        ("eof", "Fatal error: protocol.eof_received() call failed."),
    ],
)
async def test_an_error_of_a_buffered_protocol_ends_the_connection_with_it(
    loop: Loop, event: str, message: str
) -> None:
    handled = Handled(loop)
    protocol = BufferedRecorder()

    def fail() -> None:
        raise ZeroDivisionError

    protocol.react[event] = fail
    async with opened(protocol) as (transport, peer):
        await loop.sock_sendall(peer, b"data")
        peer.shutdown(socket.SHUT_WR)
        await protocol.seen("lost")
        assert handled.messages() == [message]
        assert handled.contexts[0]["transport"] is transport
        assert handled.contexts[0]["protocol"] is protocol
    assert isinstance(protocol.lost_with(), ZeroDivisionError)


@pytest.mark.parametrize("how", ["close", "abort", "pause_reading"])
async def test_ending_inside_get_buffer_is_not_followed_by_data(loop: Loop, how: str, backend_name: str) -> None:
    if backend_name == "asyncio":
        pytest.skip("asyncio's loop receives for a transport that was closed in get_buffer")
    protocol = BufferedRecorder()
    async with opened(protocol, tcp_pair) as (transport, peer):
        protocol.react["get_buffer"] = getattr(transport, how)
        await loop.sock_sendall(peer, b"data")
        await protocol.seen("get_buffer")
        transport.close()
        await protocol.seen("lost")
    assert protocol.received() == b""


@pytest.mark.differs(
    "Transport.set_protocol",
    why="The methods of a protocol are looked up when it is set; a method replaced later is"
    " called once `set_protocol` is called again. asyncio looks a method up at each call.",
)
@pytest.mark.loopcore_only  # asyncio looks a method up at each call
async def test_a_method_put_in_the_place_of_a_protocols_is_called_once_it_is_set_again(loop: Loop) -> None:
    protocol = Recorder()
    async with opened(protocol) as (transport, peer):
        original, patched = protocol.data_received, []

        def data_received(data: bytes) -> None:
            patched.append(data)
            original(data)

        protocol.data_received = data_received  # type: ignore[method-assign]
        await loop.sock_sendall(peer, b"one")
        await protocol.until(lambda: protocol.received() == b"one")
        assert patched == []
        transport.set_protocol(protocol)
        await loop.sock_sendall(peer, b"two")
        await protocol.until(lambda: protocol.received() == b"onetwo")
        assert patched == [b"two"]


@pytest.mark.differs(
    "EventLoop.connect_accepted_socket",
    why="A protocol's methods share one copy of the opener's context; asyncio makes one for each kind of callback,"
    " before Python 3.15.",
)
def test_all_callbacks_share_one_context_which_is_not_the_callers(loop: Loop, backend_name: str) -> None:
    if backend_name == "asyncio" and sys.version_info < (3, 15):
        pytest.skip("before Python 3.15 asyncio makes a copy for each kind of callback")
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="nobody's")
    protocol = Recorder()
    values = []

    def look() -> None:
        values.append(variable.get())
        variable.set(f"set by {protocol.kinds()[len(protocol.kinds()) - 1]}")

    for kind in ("made", "data", "eof", "resume", "lost"):
        protocol.react[kind] = look

    async def main() -> None:
        variable.set("the opener's")
        near, peer = unix_pair()
        with peer:
            transport, _ = await loop.connect_accepted_socket(lambda: protocol, near)
            await loop.sock_sendall(peer, b"data")
            await protocol.seen("data")
            transport.write(b"x" * 3_000_000)
            assert len(await receive(peer, 3_000_000)) == 3_000_000
            await protocol.seen("resume")
            peer.shutdown(socket.SHUT_WR)
            await protocol.seen("lost")
        assert variable.get() == "the opener's"

    run(loop, main())
    assert values == ["the opener's", "set by made", "set by data", "set by resume", "set by eof"]
    assert variable.get() == "nobody's"


async def test_tasks_started_by_callbacks_see_the_openers_context(loop: Loop) -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="nobody's")
    protocol = Recorder()
    found: list[str] = []

    async def look() -> None:
        found.append(variable.get())

    tasks: list[asyncio.Task[None]] = []
    protocol.react["data"] = lambda: tasks.append(loop.create_task(look()))
    variable.set("the opener's")
    async with opened(protocol) as (_, peer):
        await loop.sock_sendall(peer, b"data")
        await protocol.seen("data")
        await asyncio.gather(*tasks)
    assert found == ["the opener's"]
