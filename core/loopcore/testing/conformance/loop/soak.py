"""Soak: many rounds of connections, after which nothing is left. LOOPCORE_SOAK sets the rounds; by default few."""

import asyncio
import gc
import os
import weakref
from typing import Final

from loopcore.loop import EventLoop
from loopcore.selection.environment import read
from loopcore.testing.conformance.base import unhurried
from loopcore.testing.conformance.loop.base import LoopLevel
from loopcore.testing.conformance.loop.transports import echo
from loopcore.testing.conformance.surroundings import open_files

ROUNDS: Final = int(read("LOOPCORE_SOAK") or "10")
AT_ONCE: Final = 20


class Soak(LoopLevel):
    """Connections come and go, are cancelled and aborted; descriptors and objects are counted."""

    @unhurried
    def test_rounds_of_connections_leave_no_descriptor_and_no_transport(self) -> None:
        before = open_files()
        loop = EventLoop(self.make())
        seen: weakref.WeakSet[asyncio.WriteTransport] = weakref.WeakSet()

        async def talk(address: tuple[str, int], number: int) -> None:
            reader, writer = await asyncio.open_connection(*address)
            seen.add(writer.transport)
            try:
                writer.write(bytes(1000 * number + 1))
                await reader.readexactly(1000 * number + 1)
                if number % 3 == 0:
                    await reader.read(1)  # until it is cancelled
                if number % 3 == 1:
                    writer.transport.abort()
            finally:
                writer.close()

        async def work() -> None:
            async with await asyncio.start_server(echo, "127.0.0.1", 0, backlog=128) as server:
                address = server.sockets[0].getsockname()
                quiet = set(os.listdir("/proc/self/fd"))
                for _ in range(ROUNDS):
                    talks = [loop.create_task(talk(address, number)) for number in range(AT_ONCE)]
                    await asyncio.wait([each for number, each in enumerate(talks) if number % 3])
                    for each in talks:
                        each.cancel()
                    await asyncio.gather(*talks, return_exceptions=True)
                    while len(asyncio.all_tasks(loop)) > 1:  # the server's tasks, which learn of it now
                        await asyncio.sleep(0)
                await asyncio.sleep(0.01)
                assert len(os.listdir("/proc/self/fd")) == len(quiet)

        try:
            loop.run_until_complete(work())
        finally:
            loop.close()
        gc.collect()
        assert not seen
        assert open_files() == before
