"""What a program puts in the place of a method is called by loopcore's streams too, which else go without a look-up."""

import asyncio
from typing import Any

import pytest

import loopcore
from loopcore import StreamReader


@pytest.mark.settles
async def test_a_transports_write_that_was_replaced_is_called() -> None:
    written: list[bytes] = []

    async def echo(reader: Any, writer: Any) -> None:
        while data := await reader.read(100):
            writer.write(data)
        writer.close()
        await writer.wait_closed()

    def write(data: bytes) -> None:
        written.append(data)
        original(data.upper())

    async with await loopcore.start_server(echo, "127.0.0.1", 0) as server:
        reader, writer = await loopcore.open_connection(*server.sockets[0].getsockname())
        transport: Any = writer.transport
        original = transport.write
        takes_attributes = hasattr(transport, "__dict__")
        if takes_attributes:
            writer.write(b"before ")
            transport.write = write
            writer.write(b"noted")
            assert await reader.readexactly(12) == b"before NOTED"
        writer.close()
        await writer.wait_closed()
    if not takes_attributes:
        pytest.skip("this transport takes no attributes")
    assert written == [b"noted"]


async def test_a_loops_create_future_that_was_replaced_makes_what_a_read_waits_for(loop: Any) -> None:
    made: list[Any] = []

    def create_future() -> Any:
        made.append(asyncio.Future(loop=loop))
        return made[-1]

    loop.create_future = create_future
    try:
        reader = StreamReader()
        reading = asyncio.ensure_future(reader.read(3))
        await asyncio.sleep(0)
    finally:
        del loop.create_future
    assert len(made) == 1
    reader.feed_data(b"abc")
    assert made[0].done()
    assert await reading == b"abc"
