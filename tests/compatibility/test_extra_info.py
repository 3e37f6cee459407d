"""What `get_extra_info` can be asked for is drawn from asyncio's transports, one of each kind."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest

from tests.compatibility.surface import EXTRA
from tests.transports.datagram_support import ANY_PORT, DatagramRecorder, endpoint
from tests.transports.pipe_support import made, pipe_pair
from tests.transports.process_support import ended, shell
from tests.transports.recorder import Recorder, opened, settle, tcp_pair
from tests.transports.tls_support import is_oracle, secured

Opener = Callable[[], AbstractAsyncContextManager[Any]]


@asynccontextmanager
async def stream() -> AsyncIterator[Any]:
    async with opened(Recorder(), tcp_pair) as (transport, _):
        yield transport


@asynccontextmanager
async def tls() -> AsyncIterator[Any]:
    async with secured(Recorder(), make_pair=tcp_pair) as (transport, _):
        yield transport


@asynccontextmanager
async def datagrams() -> AsyncIterator[Any]:
    async with endpoint(DatagramRecorder(), ANY_PORT) as near:
        async with endpoint(DatagramRecorder(), None, near.get_extra_info("sockname")) as transport:
            yield transport


def pipe(end: int, method: str) -> Opener:
    @asynccontextmanager
    async def opener() -> AsyncIterator[Any]:
        with made(pipe_pair) as pair:
            transport, _ = await getattr(asyncio.get_running_loop(), method)(Recorder, pair[end])
            yield transport
            transport.close()
            await settle()

    return opener


@asynccontextmanager
async def process() -> AsyncIterator[Any]:
    transport, protocol = await shell("true")
    yield transport
    await ended(transport, protocol)


@pytest.mark.parametrize(
    ("owner", "opener"),
    [
        ("Transport", stream),
        ("SSLTransport", tls),
        ("DatagramTransport", datagrams),
        ("ReadPipeTransport", pipe(0, "connect_read_pipe")),
        ("WritePipeTransport", pipe(1, "connect_write_pipe")),
        ("SubprocessTransport", process),
    ],
)
async def test_every_transport_answers_what_asyncios_does(
    loop: asyncio.AbstractEventLoop, owner: str, opener: Opener
) -> None:
    unknown = object()
    async with opener() as transport:
        assert [name for name in EXTRA[owner] if transport.get_extra_info(name, unknown) is unknown] == []
        if is_oracle(loop):
            assert {*EXTRA[owner]} == known_to_asyncio(transport)


def known_to_asyncio(transport: Any) -> set[str]:
    """The names that asyncio's transport has an answer to."""
    carrier = getattr(transport, "_ssl_protocol", None)
    if carrier is None:
        return {*transport._extra}
    return {*carrier._extra, *carrier._transport._extra}
