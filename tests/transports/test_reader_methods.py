"""A StreamReader, or its protocol, that is not what its methods belong to, or cannot be looked up: it is called."""

import asyncio
import weakref
from types import MethodType
from typing import Any

import pytest

from tests.transports.recorder import Handled, settle
from tests.transports.test_reader_feed import LARGE, exchange, streams

Loop = asyncio.AbstractEventLoop


class Delegate:
    """Stands for a reader."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self.reader = reader

    def __getattr__(self, name: str) -> Any:
        return getattr(self.reader, name)


async def test_a_reader_behind_another_object_is_woken_each_time(loop: Loop) -> None:
    reader = asyncio.StreamReader(loop=loop)
    async with streams(loop, reader=Delegate(reader)) as (_, _, peer):
        for size in (5, 5, LARGE, LARGE, 5):
            reading = asyncio.ensure_future(reader.readexactly(size))
            await settle()
            await loop.sock_sendall(peer, b"x" * size)
            assert await reading == b"x" * size


async def test_bytes_go_to_the_reader_whose_method_was_put_on_this_one(loop: Loop) -> None:
    reader, other = asyncio.StreamReader(loop=loop), asyncio.StreamReader(loop=loop)
    reader.feed_data = other.feed_data  # type: ignore[method-assign]
    async with streams(loop, reader=reader) as (_, _, peer):
        await loop.sock_sendall(peer, b"hello")
        assert await other.readexactly(5) == b"hello"


async def test_bytes_go_to_the_protocol_whose_method_was_put_on_this_one(loop: Loop) -> None:
    other = asyncio.StreamReader(loop=loop)

    class Redirected(asyncio.StreamReaderProtocol):
        def __init__(self, *args: Any, **keywords: Any) -> None:
            super().__init__(*args, **keywords)
            self.data_received = receiver.data_received  # type: ignore[method-assign]

    receiver = asyncio.StreamReaderProtocol(other, loop=loop)
    async with streams(loop, protocol_class=Redirected) as (_, _, peer):
        await loop.sock_sendall(peer, b"hello")
        assert await other.readexactly(5) == b"hello"


@pytest.mark.parametrize("way", ["property", "__getattribute__"])
@pytest.mark.parametrize("size", [5, LARGE])
async def test_a_reader_that_gives_the_transport_another_protocol_when_it_is_looked_at_has_the_bytes(
    loop: Loop, size: int, way: str
) -> None:
    armed: list[Any] = []
    successor = asyncio.Protocol()

    def look() -> None:
        if armed:
            armed.pop().set_protocol(successor)

    class ByProperty(asyncio.StreamReader):
        @property
        def _eof(self) -> bool:
            look()
            return bool(vars(self)["ended"])

        @_eof.setter
        def _eof(self, ended: bool) -> None:
            vars(self)["ended"] = ended

    class ByHand(asyncio.StreamReader):
        def __getattribute__(self, name: str) -> Any:
            if name == "_eof":
                look()
            return super().__getattribute__(name)

    reader = (ByProperty if way == "property" else ByHand)(loop=loop)
    async with streams(loop, reader=reader) as (_, protocol, peer):
        await exchange(loop, reader, peer, LARGE)
        await exchange(loop, reader, peer, LARGE)
        transport = protocol._transport
        armed.append(transport)
        await loop.sock_sendall(peer, b"x" * size)
        for _ in range(10):
            await settle()
        assert await reader.readexactly(size) == b"x" * size
        assert transport.get_protocol() is successor
        assert not transport.is_closing()


@pytest.mark.parametrize("kind", ["reader", "buffer"])
async def test_a_reader_that_cannot_be_looked_up_ends_the_connection(loop: Loop, kind: str) -> None:
    def fail() -> None:
        raise ZeroDivisionError

    handled = Handled(loop)
    async with streams(loop) as (reader, protocol, peer):
        await exchange(loop, reader, peer, LARGE)
        transport = protocol._transport
        if kind == "reader":
            protocol._stream_reader_wr = fail
        else:
            del reader._buffer
        await loop.sock_sendall(peer, bytes(LARGE))
        for _ in range(10):
            await settle()
        assert transport.is_closing()
        assert sum("data_received" in message for message in handled.messages()) == 1


async def test_a_protocol_that_names_another_reader_when_it_is_asked_feeds_that(loop: Loop) -> None:
    other = asyncio.StreamReader(loop=loop)

    class Leading(asyncio.StreamReaderProtocol):
        def __getattribute__(self, name: str) -> Any:
            return other if name == "_stream_reader" else super().__getattribute__(name)

    async with streams(loop, protocol_class=Leading) as (_, _, peer):
        await loop.sock_sendall(peer, b"hello")
        assert await other.readexactly(5) == b"hello"


async def test_a_second_reader_of_one_protocol_is_looked_at_as_the_first(loop: Loop) -> None:
    first, second, other = (asyncio.StreamReader(loop=loop) for _ in range(3))
    second.feed_data = other.feed_data  # type: ignore[method-assign]
    async with streams(loop, reader=first) as (_, protocol, peer):
        await loop.sock_sendall(peer, b"first")
        assert await first.readexactly(5) == b"first"
        protocol._stream_reader_wr = weakref.ref(second)
        await loop.sock_sendall(peer, b"hello")
        assert await other.readexactly(5) == b"hello"


@pytest.mark.parametrize("size", [5, LARGE])
async def test_a_feed_outlives_the_look_that_gives_the_transport_another_protocol(loop: Loop, size: int) -> None:
    class Springs:
        """A method that is looked up once with consequences."""

        def __get__(self, reader: Any, kind: type) -> Any:
            if reader is None:
                return self
            if reader.is_armed:
                reader.is_armed = False
                reader._transport.set_protocol(Ignoring())
                made.extend((number, str(number)) for number in range(3000))
            return MethodType(asyncio.StreamReader.feed_data, reader)

    class Reader(asyncio.StreamReader):
        is_armed = False
        feed_data = Springs()  # type: ignore[assignment]

    class Ignoring(asyncio.BufferedProtocol):
        def get_buffer(self, sizehint: int) -> bytearray:
            return bytearray(65536)

        def buffer_updated(self, nbytes: int) -> None:
            pass

    made: list[tuple[int, str]] = []
    reader = Reader(loop=loop)
    async with streams(loop, reader=reader) as (_, _, peer):
        for _ in range(3):
            await loop.sock_sendall(peer, b"x" * size)
            await reader.readexactly(size)
        Reader.another = 1  # type: ignore[attr-defined]  # the class is looked at anew
        reader.is_armed = True
        await loop.sock_sendall(peer, b"y" * size)
        await settle()
        assert all(text == str(number) for number, text in made)
