"""Attributes that a program puts on a transport, and methods that it replaces; asyncio's own loop is the oracle."""

import asyncio
import contextlib
import gc
import weakref
from collections.abc import AsyncIterator, Callable
from typing import Any
from unittest import mock

import pytest

from tests.transports.pipe_support import made, pipe_pair
from tests.transports.recorder import Recorder, opened, receive, run, settle
from tests.transports.tls_support import secured

Opened = Callable[[], contextlib.AbstractAsyncContextManager[Any]]


@contextlib.asynccontextmanager
async def stream() -> AsyncIterator[Any]:
    async with opened(Recorder()) as (transport, _):
        yield transport


@contextlib.asynccontextmanager
async def tls() -> AsyncIterator[Any]:
    async with secured(Recorder()) as (transport, _):
        yield transport


@contextlib.asynccontextmanager
async def datagrams() -> AsyncIterator[Any]:
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_datagram_endpoint(asyncio.DatagramProtocol, local_addr=("127.0.0.1", 0))
    yield transport
    transport.abort()
    await settle()


@contextlib.asynccontextmanager
async def read_end() -> AsyncIterator[Any]:
    with made(pipe_pair) as (reading, _):
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(Recorder, reading)
        yield transport
        transport.close()
        await settle()


@contextlib.asynccontextmanager
async def write_end() -> AsyncIterator[Any]:
    with made(pipe_pair) as (_, writing):
        transport, _ = await asyncio.get_running_loop().connect_write_pipe(Recorder, writing)
        yield transport
        transport.close()
        await settle()


every_kind = pytest.mark.parametrize("kind", [stream, tls, datagrams, read_end, write_end])


@every_kind
async def test_an_attribute_is_kept_and_taken_back(kind: Opened) -> None:
    async with kind() as transport:
        transport.note = 7
        assert vars(transport)["note"] == transport.note == 7
        del transport.note
        assert not hasattr(transport, "note")


@every_kind
async def test_a_method_can_be_replaced_on_one_transport(kind: Opened) -> None:
    async with kind() as transport:
        transport.is_closing = mock.Mock(return_value="asked")
        assert transport.is_closing() == "asked"
        del transport.is_closing
        assert transport.is_closing() is False


async def test_a_replaced_write_may_call_the_real_one() -> None:
    async with opened(Recorder()) as (transport, far):
        real, seen = transport.write, []

        def write(data: bytes) -> None:
            seen.append(data)
            real(data.upper())

        transport.write = write
        transport.write(b"words")
        assert seen == [b"words"]
        assert await receive(far, 5) == b"WORDS"


@every_kind
async def test_libraries_can_look_at_what_asyncio_calls_closing(kind: Opened) -> None:
    """By name, as asyncio's: `_closing`, and of TLS `_closed` (issue 32)."""
    name = "_closed" if kind is tls else "_closing"
    async with kind() as transport:
        assert getattr(transport, name) is False
        transport.close()
        assert getattr(transport, name) is True


@pytest.mark.loopcore_only
@every_kind
async def test_what_asyncio_calls_closing_cannot_be_set(loop: Any, kind: Opened) -> None:
    async with kind() as transport:
        with pytest.raises(AttributeError):
            setattr(transport, "_closed" if kind is tls else "_closing", True)
    with pytest.raises(AttributeError):
        loop._closed = True


@every_kind
async def test_the_name_of_a_transports_type_says_whether_it_is_tls(kind: Opened) -> None:
    """Libraries look for "SSL" in it (issue 32)."""
    async with kind() as transport:
        assert ("SSL" in type(transport).__name__) is (kind is tls)
        assert ("SSL" in transport.__class__.__name__) is (kind is tls)


@every_kind
def test_a_cycle_through_an_attribute_is_collected(loop: asyncio.AbstractEventLoop, kind: Opened) -> None:
    async def main() -> "weakref.ref[Any]":
        async with kind() as transport:
            transport.itself = transport
            return weakref.ref(transport)

    reference = run(loop, main())
    run(loop, settle())
    gc.collect()
    assert reference() is None
