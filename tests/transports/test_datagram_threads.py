"""Loops in several threads receive datagrams side by side."""

import asyncio
import gc
import socket
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.transports.datagram_support import ANY_PORT, endpoint, udp_socket

Loop = asyncio.AbstractEventLoop


class Elsewhere(asyncio.DatagramProtocol):
    """Receives in a loop of its own, in a thread of its own."""

    def __init__(self, loop: Loop) -> None:
        self.name: Any = None
        self.received = threading.Event()
        self._loop = loop
        self._ready = threading.Event()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=loop.run_until_complete, args=(self._serve(),))

    def __enter__(self) -> "Elsewhere":
        self._thread.start()
        assert self._ready.wait(60)
        return self

    def __exit__(self, *exc: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    async def _serve(self) -> None:
        async with endpoint(self, ANY_PORT) as transport:
            self.name = transport.get_extra_info("sockname")
            self._ready.set()
            await self._stop.wait()

    def datagram_received(self, data: bytes, addr: Any) -> None:
        self.received.set()


@pytest.fixture
def collections() -> Iterator[list[Any]]:
    """What is called when a collection begins in the main thread, and perhaps where no Python runs."""
    called: list[Any] = []

    def collect(phase: str, info: dict[str, int]) -> None:
        if phase == "start" and threading.current_thread() is threading.main_thread():
            for each in called:
                each()

    before = gc.get_threshold()
    gc.callbacks.append(collect)
    try:
        yield called
    finally:
        gc.callbacks.remove(collect)
        gc.set_threshold(*before)
        gc.enable()


@pytest.mark.skipif(sys.implementation.name != "cpython", reason="it has no thresholds")
def test_what_another_thread_receives_in_a_collection_is_not_handed_over_here(
    loop: Loop, loop_factory: Any, collections: list[Any]
) -> None:
    got: list[bytes] = []

    class Here(asyncio.DatagramProtocol):
        def datagram_received(self, data: bytes, addr: Any) -> None:
            got.append(data)

    async def main(elsewhere: Elsewhere) -> None:
        def disturb() -> None:
            elsewhere.received.clear()
            sender.sendto(b"theirs", elsewhere.name)
            assert elsewhere.received.wait(60)

        async with endpoint(Here(), ("::1", 0)) as transport:
            name = transport.get_extra_info("sockname")
            for threshold in range(1, 30):
                with udp_socket(socket.AF_INET6) as peer, udp_socket() as sender:
                    await asyncio.sleep(0)
                    gc.disable()
                    reserve = [(each, each, each, each) for each in range(3000)]  # of tuples like an address: all of it
                    peer.sendto(b"ours", name)
                    gc.set_threshold(threshold)
                    collections.append(disturb)
                    gc.enable()
                    while len(got) < threshold:
                        await asyncio.sleep(0)
                    collections.clear()
                    del reserve
        assert got == [b"ours"] * len(got)

    with Elsewhere(loop_factory()) as elsewhere:
        loop.run_until_complete(main(elsewhere))
