"""What hooks are told of transports, and what these count: every kind, once each, in order."""

import asyncio
import gc
import os
import socket
import warnings
from pathlib import Path
from typing import Any

import pytest

import loopcore
from loopcore.testing.hooks.recorder import Recorder
from tests.transports.recorder import Recorder as Protocol
from tests.transports.recorder import run, settle, unix_pair
from tests.transports.tls_support import secured, server_context, stranger_context

pytestmark = pytest.mark.loopcore_only

unix_only = pytest.mark.skipif(os.name != "posix", reason="os.pipe is watched on Unix only")

LARGE = bytes(4 << 20)
"""More than a socket and its buffers take at once."""


class Watch(Recorder):
    """A recorder that can say what happened to one transport."""

    def to(self, transport: Any) -> list[Any]:
        return [
            hook.removeprefix("loopcore_transport_")
            + "".join(f" {told[key]!r}" for key in ("direction", "exc") if key in told)
            for hook, told in self.seen
            if told.get("transport") is transport
        ]

    def opened(self) -> list[Any]:
        return [told["transport"] for told in self.of("transport_opened")]


@pytest.fixture
def watch(loop: Any) -> Watch:
    made = Watch()
    loop.probes.register(made)
    return made


async def connect(loop: Any) -> tuple[Any, Any, socket.socket]:
    near, far = unix_pair()
    transport, protocol = await loop.connect_accepted_socket(Protocol, near)
    return transport, protocol, far


async def test_opened_comes_after_connection_made_and_closed_before_connection_lost(loop: Any) -> None:
    order: list[str] = []

    class Order:
        @loopcore.hookimpl
        def loopcore_transport_opened(self) -> None:
            order.append("opened")

        @loopcore.hookimpl
        def loopcore_transport_closed(self) -> None:
            order.append("closed")

    class Writer(asyncio.Protocol):
        def connection_made(self, transport: Any) -> None:
            order.append("made")
            transport.abort()

        def connection_lost(self, exc: Exception | None) -> None:
            order.append("lost")

    loop.probes.register(Order())
    near, far = unix_pair()
    with far:
        await loop.connect_accepted_socket(Writer, near)
        await settle()
    assert order == ["made", "opened", "closed", "lost"]


async def test_reading_and_writing_are_told_apart(loop: Any, watch: Watch) -> None:
    transport, protocol, far = await connect(loop)
    with far:
        for _ in range(2):  # the second call of each changes nothing
            transport.pause_reading()
        for _ in range(2):
            transport.resume_reading()
        transport.write(LARGE)
        left = len(LARGE)
        while left:
            left -= len(await loop.sock_recv(far, 1 << 20))
        await protocol.seen("resume")
        transport.close()
        await protocol.seen("lost")
    assert watch.to(transport) == [
        "opened",
        *(f"{event} 'reading'" for event in ("paused", "resumed")),
        *(f"{event} 'writing'" for event in ("paused", "resumed")),
        "closed None",
    ]


async def test_the_error_that_ends_a_connection_is_told(loop: Any, watch: Watch) -> None:
    transport, protocol, far = await connect(loop)
    far.close()
    transport.write(b"nobody")
    await protocol.seen("lost")
    assert protocol.lost_with() is not None
    (closed,) = watch.of("transport_closed")
    assert closed["exc"] is protocol.lost_with()


class Ends:
    """Notes what was told as opened and closed, by kind: to keep the transports would keep them from being dropped."""

    def __init__(self) -> None:
        self.told: list[str] = []

    @loopcore.hookimpl
    def loopcore_transport_opened(self, transport: Any) -> None:
        self.told.append(f"opened {type(transport).__name__}")

    @loopcore.hookimpl
    def loopcore_transport_closed(self, transport: Any, exc: BaseException | None) -> None:
        self.told.append(f"closed {type(transport).__name__} {exc}")


async def drop_stream(loop: Any) -> socket.socket:
    transport, _, far = await connect(loop)
    transport.pause_reading()  # what reads is held by the loop
    return far


async def drop_pipe(loop: Any) -> Any:
    reading, writing = (os.fdopen(number, mode) for number, mode in zip(os.pipe(), ("rb", "wb"), strict=True))
    transport, _ = await loop.connect_read_pipe(Protocol, reading)
    transport.pause_reading()
    return writing


@pytest.mark.parametrize(
    ("drop", "kind"), [(drop_stream, "StreamTransport"), pytest.param(drop_pipe, "ReadPipeTransport", marks=unix_only)]
)
async def test_a_transport_that_nobody_closed_is_told_as_closed_when_it_is_dropped(
    loop: Any, drop: Any, kind: str
) -> None:
    watch = Ends()
    loop.probes.register(watch)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # test_stream_closing.py and its kin look at these
        far = await asyncio.ensure_future(drop(loop))
        with far:
            await settle()
            gc.collect()
            await settle()
    assert watch.told == [f"opened {kind}", f"closed {kind} None"]


def test_a_transport_dropped_with_its_closed_loop_is_told_to_nobody(loopcore_factory: Any) -> None:
    loop = loopcore_factory()
    watch = Ends()
    loop.probes.register(watch)

    transport, protocol, far = run(loop, connect(loop))
    loop.close()
    with far, warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        del transport, protocol, loop
        gc.collect()
    assert watch.told == ["opened StreamTransport"]


async def test_a_tls_transport_opens_after_its_carrier_and_closes_after_it(watch: Watch) -> None:
    async with secured(Protocol()) as (transport, _):
        transport.pause_reading()
        transport.resume_reading()
    carrier, secure = watch.opened()
    assert secure is transport
    assert type(carrier).__name__ == "StreamTransport"
    assert watch.to(transport) == ["opened", "paused 'reading'", "resumed 'reading'", "closed None"]
    assert watch.to(carrier) == ["opened", "paused 'reading'", "resumed 'reading'", "closed None"]


async def test_a_failed_handshake_opens_no_tls_transport(watch: Watch) -> None:
    with pytest.raises(OSError):
        async with secured(Protocol(), ssl=server_context(), peer_context=stranger_context()):
            pass
    await settle()
    assert [type(one).__name__ for one in watch.opened()] == ["StreamTransport"]
    assert len(watch.of("transport_closed")) == 1


async def test_bytes_are_counted_each_way_for_a_connection_and_in_all(loop: Any) -> None:
    transport, protocol, far = await connect(loop)
    with far:
        before = (loop.counters().bytes_received, loop.counters().bytes_sent)
        await loop.sock_sendall(far, b"12345")
        await protocol.seen("data")
        transport.write(b"123")
        transport.writelines([b"1", b"22"])
        assert await loop.sock_recv(far, 100) == b"123122"
        assert transport.get_extra_info("loopcore.bytes") == (5, 6)
        assert (loop.counters().bytes_received - before[0], loop.counters().bytes_sent - before[1]) == (5, 6)
        transport.close()
        await protocol.seen("lost")
        assert transport.get_extra_info("loopcore.bytes") == (5, 6)


@pytest.mark.parametrize("mutable", [False, True])
async def test_what_is_sent_in_parts_is_counted_once(loop: Any, mutable: bool) -> None:
    transport, protocol, far = await connect(loop)
    with far:
        transport.write(bytearray(LARGE) if mutable else LARGE)
        transport.write(b"1")
        left = len(LARGE) + 1
        while left:
            left -= len(await loop.sock_recv(far, 1 << 20))
        assert transport.get_extra_info("loopcore.bytes") == (0, len(LARGE) + 1)
        transport.abort()
        await protocol.seen("lost")


async def test_a_buffered_protocol_is_counted_for_what_came(loop: Any) -> None:
    class Buffered(asyncio.BufferedProtocol):
        def __init__(self) -> None:
            self.filled = loop.create_future()

        def get_buffer(self, sizehint: int) -> bytearray:
            return bytearray(100)

        def buffer_updated(self, nbytes: int) -> None:
            self.filled.set_result(nbytes)

    near, far = unix_pair()
    with far:
        transport, protocol = await loop.connect_accepted_socket(Buffered, near)
        far.send(b"123")
        assert await protocol.filled == 3
        assert transport.get_extra_info("loopcore.bytes") == (3, 0)
        transport.abort()
        await settle()


async def test_files_are_counted_whoever_reads_them(loop: Any, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"1234567")
    transport, protocol, far = await connect(loop)
    with far, path.open("rb") as file:
        assert await loop.sendfile(transport, file) == 7
        assert transport.get_extra_info("loopcore.bytes") == (0, 7)
        transport.close()
        await protocol.seen("lost")


async def test_tls_counts_what_is_on_the_wire(loop: Any) -> None:
    async with secured(Protocol()) as (transport, _):
        received, sent = transport.get_extra_info("loopcore.bytes")
        assert 100 < received < loop.counters().bytes_received + 1
        assert 100 < sent < loop.counters().bytes_sent + 1


async def test_datagrams_are_counted_by_what_is_in_them(loop: Any) -> None:
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with far:
        received = loop.create_future()

        class Receiver(asyncio.DatagramProtocol):
            def datagram_received(self, data: bytes, addr: Any) -> None:
                received.set_result(data)

        transport, _ = await loop.create_datagram_endpoint(Receiver, sock=near)
        transport.sendto(b"123")
        transport.sendto(memoryview(bytes(8)).cast("I"))
        far.send(b"12")
        await received
        assert transport.get_extra_info("loopcore.bytes") == (2, 11)
        transport.close()
        await settle()


async def test_pipes_are_counted(loop: Any) -> None:
    there, here = os.pipe()
    with open(there, "rb", 0) as reading, open(here, "wb", 0) as writing:
        reader, protocol = await loop.connect_read_pipe(Protocol, reading)
        writer, _ = await loop.connect_write_pipe(Protocol, writing)
        writer.write(b"123")
        await protocol.seen("data")
        assert writer.get_extra_info("loopcore.bytes") == (0, 3)
        assert reader.get_extra_info("loopcore.bytes") == (3, 0)
        writer.close()
        await protocol.seen("lost")


def test_a_hook_of_transports_has_nothing_else_watched(loop: Any) -> None:
    class Other:
        @loopcore.hookimpl
        def loopcore_transport_opened(self) -> None: ...

    other = Other()
    loop.probes.register(other)
    assert loop._watching_transports
    others = (loop.probes.watching_handles, loop.probes.watching_ticks, loop.probes.watching_jobs)
    assert not any(others)
    loop.probes.unregister(other)
    assert not loop._watching_transports


class Leaving:
    @loopcore.hookimpl
    def loopcore_transport_closed(self) -> None:
        asyncio.get_running_loop().probes.unregister(self)  # type: ignore[attr-defined]
        raise SystemExit


def end_of(loop: Any, protocol: Any) -> None:
    """Run until `Leaving` exits, and then until the protocol's `connection_lost` is called."""
    with pytest.raises(SystemExit):
        loop.run_forever()
    loop.run_until_complete(asyncio.wait_for(protocol.seen("lost"), 30))


def test_connection_lost_is_called_although_a_hook_exits(loop: Any) -> None:
    near, far = unix_pair()
    with far:
        transport, protocol = loop.run_until_complete(loop.connect_accepted_socket(Protocol, near))
        loop.probes.register(Leaving())
        transport.abort()
        end_of(loop, protocol)
    assert near.fileno() == -1


def test_connection_lost_of_tls_is_called_although_a_hook_exits(loop: Any) -> None:
    async def connect() -> None:
        async with secured(protocol):
            loop.probes.register(Leaving())

    protocol = Protocol()
    connecting = loop.create_task(connect())
    end_of(loop, protocol)
    loop.run_until_complete(connecting)
