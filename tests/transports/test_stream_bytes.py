"""Bytes in, bytes out: nothing lost, nothing changed, in order."""

import array
import asyncio
import contextlib
import random
import socket
import sys
from typing import Any

import pytest

from tests.transports.recorder import BufferedRecorder, Recorder, opened, receive, receive_all, tcp_pair, unix_pair

Loop = asyncio.AbstractEventLoop


class Echo(asyncio.Protocol):
    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)


@pytest.mark.covers("Transport.write")
@pytest.mark.parametrize("make_pair", [unix_pair, tcp_pair])
@pytest.mark.parametrize("size", [1, 1024, 100_000, 3_000_000])
async def test_echo_returns_what_was_sent(loop: Loop, make_pair: Any, size: int) -> None:
    message = random.Random(size).randbytes(size)
    async with opened(Echo(), make_pair) as (_, peer):
        sending = asyncio.ensure_future(loop.sock_sendall(peer, message))
        assert await receive(peer, size) == message
        await sending


async def test_writes_of_one_callback_arrive_in_order() -> None:
    async with opened(Recorder()) as (transport, peer):
        for i in range(1000):
            transport.write(b"%d," % i)
        transport.close()
        assert await receive_all(peer) == b"".join(b"%d," % i for i in range(1000))


async def test_small_and_large_writes_keep_their_order() -> None:
    chunks = [bytes([65 + i % 26]) * (1 if i % 3 else 50_000) for i in range(60)]
    async with opened(Recorder()) as (transport, peer):
        for chunk in chunks:
            transport.write(chunk)
        transport.close()
        assert await receive_all(peer) == b"".join(chunks)


@pytest.mark.covers("Transport.writelines")
async def test_writelines_takes_more_buffers_than_one_system_call() -> None:
    lines = [b"line %d\n" % i for i in range(2000)]
    async with opened(Recorder()) as (transport, peer):
        transport.writelines(lines)
        transport.write(b"end")
        transport.close()
        assert await receive_all(peer) == b"".join(lines) + b"end"


async def test_writelines_larger_than_the_kernel_takes_arrives_whole() -> None:
    lines = [bytes([65 + i % 26]) * 3000 for i in range(1500)]
    async with opened(Recorder()) as (transport, peer):
        transport.writelines(lines)
        transport.close()
        assert await receive_all(peer) == b"".join(lines)


@pytest.mark.loopcore_only  # from 3.12 on each write of asyncio's adds up all that waits: it takes half a minute
@pytest.mark.parametrize("method", ["write", "writelines"])
async def test_many_small_items_between_large_ones_arrive_whole(method: str) -> None:
    """They are joined while the kernel takes nothing (issue 32)."""
    items = [bytes([65 + i % 26]) * (1 if i % 9000 else 700_000) for i in range(20_000)]
    async with opened(Recorder()) as (transport, peer):
        if method == "writelines":
            transport.writelines(items)
        else:
            for item in items:
                transport.write(item)
        transport.writelines(items)
        transport.close()
        assert await receive_all(peer) == b"".join(items) * 2


async def test_writelines_takes_a_generator_and_skips_empty_buffers() -> None:
    async with opened(Recorder()) as (transport, peer):
        transport.writelines(part for part in [b"a", b"", bytearray(b"b"), memoryview(b"c")])
        transport.writelines([])
        transport.close()
        assert await receive_all(peer) == b"abc"


@pytest.mark.loopcore_only  # asyncio's keeps views of what it could not send
@pytest.mark.parametrize("size", [5, 10_000, 200_000, 2_000_000])
@pytest.mark.parametrize("kind", ["bytearray", "view of bytearray", "view of bytes"])
@pytest.mark.parametrize("method", ["write", "writelines"])
async def test_what_is_changed_after_the_write_is_sent_as_it_was(size: int, kind: str, method: str) -> None:
    mutable = bytearray(random.Random(size).randbytes(size))
    expected = bytes(mutable)
    data: Any = mutable
    if kind != "bytearray":
        data = memoryview(mutable if kind == "view of bytearray" else expected)
    async with opened(Recorder()) as (transport, peer):
        transport.write(b"first ")
        if method == "write":
            transport.write(data)
        else:
            transport.writelines([data])
        if isinstance(data, memoryview):
            data.release()  # as `with memoryview(...)` does
        mutable[:] = bytes(len(mutable))
        mutable.clear()  # fails if the transport still holds a view of it
        transport.close()
        assert await receive_all(peer) == b"first " + expected


async def test_slices_and_arrays_are_sent_as_their_bytes(backend_name: str) -> None:
    numbers = array.array("I", range(5000))
    strided = memoryview(bytes(range(256)) * 40)[::2]
    async with opened(Recorder()) as (transport, peer):
        transport.write(memoryview(numbers))
        transport.write(memoryview(bytes(range(256)) * 40)[100:9000])
        if backend_name != "asyncio":  # where a strided view ends the connection
            transport.write(strided)
        transport.close()
        got = await receive_all(peer)
        expected = numbers.tobytes() + (bytes(range(256)) * 40)[100:9000]
        assert got[: len(expected)] == expected
        assert got[len(expected) :] in (b"", strided.tobytes())


@pytest.mark.differs(
    "Transport.write",
    "Transport.writelines",
    why="A memoryview that is not contiguous is sent; asyncio loses the connection with a BufferError; before "
    "Python 3.12 its `writelines` raises TypeError.",
)
@pytest.mark.loopcore_only
async def test_a_view_that_is_not_contiguous_is_sent() -> None:
    view = memoryview(b"abcdefgh")[::2]
    async with opened(Recorder()) as (transport, peer):
        transport.write(view)
        transport.writelines([view, b" ", view])
        transport.close()
        assert await receive_all(peer) == b"acegaceg aceg"


@pytest.mark.differs("Transport.writelines", why="An array raises TypeError, as `write` does; asyncio sends it.")
async def test_a_list_with_an_array_is_refused(backend_name: str) -> None:
    numbers: Any = array.array("B", b"abc")
    async with opened(Recorder()) as (transport, peer):
        with pytest.raises(TypeError):
            transport.write(numbers)
        refused = pytest.raises(TypeError) if backend_name != "asyncio" else contextlib.nullcontext()
        with refused:
            transport.writelines([numbers])
        transport.close()
        assert await receive_all(peer) == (b"" if backend_name != "asyncio" else b"abc")


@pytest.mark.parametrize("wrong", ["text", 5, None, [b"list"]])
async def test_what_is_not_bytes_like_is_refused(backend_name: str, wrong: Any) -> None:
    async with opened(Recorder()) as (transport, peer):
        with pytest.raises(
            TypeError, match=r"data argument must be a bytes(-like|, bytearray, or memoryview) object, not"
        ):
            transport.write(wrong)
        # asyncio leaves out what is false, from Python 3.14 on; from 3.15 on see the next test.
        if backend_name != "asyncio" or (wrong is not None and sys.version_info < (3, 15)):
            with pytest.raises(TypeError):
                transport.writelines([b"not sent", wrong])
        transport.write(b"sent")
        transport.close()
        assert await receive_all(peer) == b"sent"


@pytest.mark.differs(
    "Transport.writelines",
    why="A list with an item that is not bytes-like is not sent at all; from Python 3.15 on asyncio keeps the items"
    " before it, and sends neither them nor what is written later.",
)
@pytest.mark.loopcore_only
async def test_a_list_with_something_that_is_not_bytes_like_leaves_nothing_buffered() -> None:
    """Issue 33."""
    async with opened(Recorder()) as (transport, peer):
        with pytest.raises(TypeError):
            transport.writelines([b"not sent", "text"])
        assert transport.get_write_buffer_size() == 0
        transport.write(b"sent")
        transport.close()
        assert await receive_all(peer) == b"sent"


@pytest.mark.parametrize("empty", [b"", bytearray(), memoryview(b"")])
async def test_writing_nothing_does_nothing(empty: Any) -> None:
    async with opened(Recorder()) as (transport, peer):
        transport.write(empty)
        assert transport.get_write_buffer_size() == 0
        transport.write(b"something")
        transport.write(empty)
        transport.close()
        assert await receive_all(peer) == b"something"


async def test_a_subclass_of_bytes_is_sent() -> None:
    class Text(bytes):
        pass

    async with opened(Recorder()) as (transport, peer):
        transport.write(Text(b"subclass"))
        transport.close()
        assert await receive_all(peer) == b"subclass"


async def test_a_large_message_reaches_a_buffered_protocol_whole(loop: Loop) -> None:
    message = random.Random(1).randbytes(500_000)
    protocol = BufferedRecorder(size=70_000)
    async with opened(protocol) as (_, peer):
        await loop.sock_sendall(peer, message)
        await protocol.until(lambda: len(protocol.received()) == len(message))
    assert protocol.received() == message


async def test_received_bytes_are_the_protocols_own(loop: Loop) -> None:
    # They come out of a buffer that is used again: what was handed over must not change with it.
    protocol = Recorder()
    async with opened(protocol) as (_, peer):
        for i in range(20):
            await loop.sock_sendall(peer, bytes([i]) * (5000 * i + 1))
            expected = sum(5000 * k + 1 for k in range(i + 1))
            await protocol.until(lambda expected=expected: len(protocol.received()) == expected)  # type: ignore[misc]
    assert protocol.received() == b"".join(bytes([i]) * (5000 * i + 1) for i in range(20))
    assert all(type(event[1]) is bytes for event in protocol.events if event[0] == "data")


@pytest.mark.parametrize("make_pair", [unix_pair, tcp_pair])
@pytest.mark.parametrize("keep_every", [0, 1, 3])
async def test_large_messages_keep_their_bytes_though_their_memory_serves_again(
    loop: Loop, make_pair: Any, keep_every: int
) -> None:
    chance = random.Random(6)
    kept: list[tuple[bytes, memoryview, bytearray]] = []

    class KeepingEcho(Echo):
        def data_received(self, data: bytes) -> None:
            assert {data: 1}[bytes(bytearray(data))]
            if keep_every and chance.randrange(keep_every) == 0:
                kept.append((data, memoryview(data)[1:], bytearray(data)))
            super().data_received(data)

    async with opened(KeepingEcho(), make_pair) as (_, peer):
        for size in [100_000, 65_483, 36_917, 61_440, 61_441, 122_880, 122_881, 40_000, 40_000, 1, 100_000] * 4:
            message = chance.randbytes(size)
            sending = asyncio.ensure_future(loop.sock_sendall(peer, message))
            assert await receive(peer, size) == message
            await sending
    assert bool(kept) == bool(keep_every)
    assert all(data == copy and view == copy[1:] for data, view, copy in kept)


@pytest.mark.loopcore_only
async def test_bytes_that_lie_about_their_length_are_sent_as_they_are(loop: Any) -> None:
    class Short(bytes):
        def __len__(self) -> int:
            return 1

    ours, peers = socket.socketpair()
    ours.setblocking(False)
    transport, _ = await loop.connect_accepted_socket(asyncio.Protocol, ours)
    transport.writelines([Short(b"abc"), Short(b"def")])
    transport.close()
    await asyncio.sleep(0)
    with peers:
        assert peers.recv(100) == b"abcdef"
