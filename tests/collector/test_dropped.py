"""What a program drops in a reference cycle is collected in any thread, at any moment.

Issue 32: finalizers of writers and transports ran in another thread while the loop waited, or in the middle of a
harvest, and took the ring of completions from under it. `elsewhere` collects in another thread while the loop waits;
`at_allocation` in the loop's own, wherever it is by then. What is alive must not notice: nothing is lost, nothing is
doubled, no memory of anybody else's is written to.
"""

import asyncio
import contextlib
import gc
import mmap
import socket
import threading
import time
import warnings
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.transports.recorder import BufferedRecorder, Handled, Recorder, receive_all, run, settle, tcp_pair, unix_pair

Pair = Callable[[], tuple[socket.socket, socket.socket]]
MESSAGE = bytes(range(256)) * 16
ROUNDS = 10
BLOCK = 256 << 10
TURNS = 100
"""As many allocations are tried, each in its turn."""
FUTEX = ("202", "98", "240")
"""How a thread that waits for a lock looks, the GIL for one: x86-64, arm64, 32 bits."""


class Ring:
    """Refers to itself and to what it is given: only the collector frees them."""

    def __init__(self, *held: Any) -> None:
        self.held = held
        self.itself = self


@pytest.fixture(autouse=True)
def _no_other_collector() -> Iterator[None]:
    """Collect only where a test says so, and expect the warnings that come with it.

    What is older than the test is not looked at: the shorter a collection, the more of them come in a test.
    """
    gc.collect()
    gc.freeze()
    gc.disable()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        try:
            yield
            gc.collect()
        finally:
            gc.enable()


@contextlib.contextmanager
def at_allocation(number: int) -> Iterator[None]:
    """Collect in this thread, after so many allocations of what the collector knows."""
    usual = gc.get_threshold()
    gc.set_threshold(gc.get_count()[0] + number, 1000, 1000)
    gc.enable()
    try:
        yield
    finally:
        gc.disable()
        gc.set_threshold(*usual)


@contextlib.contextmanager
def all_the_time() -> Iterator[None]:
    """Collect in another thread, again and again; between two collections the other threads may run."""
    ending = threading.Event()

    def collect() -> None:
        while not ending.is_set():
            gc.collect()
            time.sleep(0)

    thread = threading.Thread(target=collect)
    thread.start()
    try:
        yield
    finally:
        ending.set()
        thread.join()


async def elsewhere(then: Callable[[], None] = lambda: None) -> None:
    """Collect in another thread, while the loop waits; so does what is to be done `then`."""
    done = asyncio.Event()
    loop = asyncio.get_running_loop()
    waiter = threading.get_native_id()

    def collect() -> None:
        until_it_waits(waiter)
        gc.collect()
        then()
        loop.call_soon_threadsafe(done.set)

    thread = threading.Thread(target=collect)
    thread.start()
    await done.wait()
    thread.join()


def until_it_waits(thread: int) -> None:
    """Return when `thread` is in the loop's wait: in a system call, and not for a lock. Where none is seen, at once."""
    place = Path(f"/proc/self/task/{thread}/syscall")
    try:
        while place.read_text("ascii").split()[0] in ("running", *FUTEX):
            time.sleep(0)
    except OSError:
        return


async def open_streams(near: socket.socket) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    if near.family == socket.AF_UNIX:
        return await asyncio.open_unix_connection(sock=near)
    return await asyncio.open_connection(sock=near)


@pytest.fixture(params=[unix_pair, tcp_pair], ids=["unix", "tcp"])
def make_pair(request: pytest.FixtureRequest) -> Pair:
    made: Pair = request.param
    return made


async def end_of(peer: socket.socket) -> bytes:
    """Return what comes until the connection ends, and close the socket."""
    with peer:
        return await receive_all(peer)


async def test_writer_collected_in_a_thread_closes_its_connection(make_pair: Pair) -> None:
    for _ in range(ROUNDS):
        near, far = make_pair()
        reader, writer = await open_streams(near)
        writer.write(MESSAGE)
        await writer.drain()
        Ring(reader, writer)
        # A loop may keep a transport that reads.
        writer.transport.pause_reading()
        await settle()
        del reader, writer, near
        await elsewhere()
        assert await end_of(far) == MESSAGE


async def test_connection_in_use_loses_nothing_to_a_writer_collected_in_a_thread(make_pair: Pair) -> None:
    near, far = make_pair()
    reader, writer = await open_streams(near)
    with far:
        for number in range(ROUNDS):
            near_of_dropped, far_of_dropped = make_pair()
            Ring(*await open_streams(near_of_dropped))
            del near_of_dropped
            await settle()
            message = b"%06d" % number * 1000
            waiting = asyncio.ensure_future(reader.readexactly(len(message)))
            await elsewhere(lambda: far.sendall(message))  # noqa: B023
            assert await waiting == message
            far_of_dropped.close()
        writer.close()
        await writer.wait_closed()


def test_memory_of_the_program_is_not_written_to_after_a_collection_in_a_thread(loop: Any) -> None:
    """What had been a receive buffer may be the program's by the time something is received."""
    blocks: list[mmap.mmap] = []

    def receive_into_memory() -> None:
        blocks.extend(mmap.mmap(-1, BLOCK) for _ in range(100))
        far.send(MESSAGE)

    async def main() -> None:
        zeros = bytes(BLOCK)
        reader, writer = await open_streams(near)
        for _ in range(3):
            near_of_dropped, far_of_dropped = unix_pair()
            Ring(*await open_streams(near_of_dropped))
            del near_of_dropped
            await settle()
            await elsewhere(receive_into_memory)
            assert await reader.readexactly(len(MESSAGE)) == MESSAGE
            assert not [block for block in blocks if block[:] != zeros]
            while blocks:
                blocks.pop().close()
            far_of_dropped.close()
        writer.close()
        await writer.wait_closed()

    near, far = unix_pair()
    with far:
        run(loop, main())


@pytest.mark.parametrize("make", [Recorder, BufferedRecorder])
async def test_transport_collected_in_a_thread_warns_and_closes_its_socket(
    make_pair: Pair, make: Callable[[], Any]
) -> None:
    near, far = make_pair()
    transport, protocol = await asyncio.get_running_loop().connect_accepted_socket(make, near)
    # A loop keeps a transport that reads, until what it has asked the port for has ended.
    transport.pause_reading()
    await settle()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        Ring(transport, protocol)
        del transport, protocol, near  # a collector that never rests may come right here
        await elsewhere()
    assert await end_of(far) == b""
    assert "unclosed transport" in [
        str(each.message).split(" <")[0] for each in caught if each.category is ResourceWarning
    ]


def test_task_collected_in_a_thread_is_reported_and_its_coroutine_ended(loop: Any) -> None:
    handled = Handled(loop)
    ended = []

    async def wait(event: asyncio.Event) -> None:
        try:
            await event.wait()
        finally:
            ended.append(threading.get_ident())

    async def main() -> None:
        event = asyncio.Event()
        Ring(event, asyncio.ensure_future(wait(event)))
        await asyncio.sleep(0)
        del event
        await elsewhere()

    run(loop, main())
    assert handled.messages() == ["Task was destroyed but it is pending!"]
    assert len(ended) == 1
    handled.contexts.clear()  # or else the task is still to be found, from Python 3.14 on


async def test_timers_and_callbacks_in_rings_run_all_the_same(loop: Any) -> None:
    """The loop holds what it has to call, whoever else has dropped it."""
    ran: list[int] = []
    for number in range(ROUNDS):
        ring = Ring()
        ring.handles = [  # type: ignore[attr-defined]
            loop.call_later(0.001, lambda ring=ring, number=number: ran.append(number)),
            loop.call_soon(lambda ring=ring: None),
            loop.call_later(1000, lambda ring=ring: None),
        ]
        ring.handles[2].cancel()  # type: ignore[attr-defined]
        del ring
        await elsewhere()
    while len(ran) < ROUNDS:
        await asyncio.sleep(0.001)
    assert sorted(ran) == list(range(ROUNDS))


async def test_listening_server_that_nobody_holds_goes_on_accepting(loop: Any) -> None:
    made: list[Recorder] = []

    def accept() -> Recorder:
        made.append(Recorder())
        return made[-1]

    server = await loop.create_server(accept, "127.0.0.1", 0)
    address = server.sockets[0].getsockname()
    stop = server.close
    Ring(server)
    del server
    for _ in range(3):
        await elsewhere()
        transport, client = await loop.create_connection(Recorder, *address)
        transport.write(MESSAGE)
        transport.write_eof()
        await client.seen("lost")
    stop()
    for each in made:
        await each.seen("lost")
        assert each.received() == MESSAGE


class Closer(Ring):
    """Closes in its finalizer what it is given."""

    def __del__(self) -> None:
        for transport in self.held:
            transport.close()


@pytest.mark.parametrize("first", ["closer", "transport"])
async def test_number_of_a_collected_transport_belongs_to_its_next_owner(
    loop: Any, make_pair: Pair, first: str
) -> None:
    """Two finalizers run for one transport, in either order: its own, and a writer's, which closes it."""

    async def drop() -> socket.socket:
        near, far = make_pair()
        closer = Closer()
        transport, protocol = await asyncio.get_running_loop().connect_accepted_socket(Recorder, near)
        transport.pause_reading()
        await settle()
        if first == "transport":
            closer = Closer()
        closer.held = (transport,)
        protocol.closer = closer
        return far

    far_of_dropped = await drop()
    gc.collect()
    pairs = [make_pair() for _ in range(3)]
    readable = [asyncio.Event() for _ in pairs]
    for (near, _), event in zip(pairs, readable, strict=True):
        loop.add_reader(near, event.set)
    await settle()
    assert await end_of(far_of_dropped) == b""
    for (near, far), event in zip(pairs, readable, strict=True):
        far.send(MESSAGE)
        await event.wait()
        loop.remove_reader(near)
        near.close()
        far.close()


async def exchange(count: int, drop: Callable[[], Awaitable[None]], collecting: Callable[[int], Any]) -> None:
    """Have many connections receive at once, again and again, after something was dropped; each byte is checked."""
    loop = asyncio.get_running_loop()
    pairs = [unix_pair() for _ in range(count)]
    recorders = [Recorder() if number % 2 else BufferedRecorder(1000) for number in range(count)]
    for (near, _), recorder in zip(pairs, recorders, strict=True):
        await loop.connect_accepted_socket(lambda: recorder, near)  # noqa: B023
    expected = [b""] * count
    for turn in range(TURNS):
        await drop()
        for number, (_, far) in enumerate(pairs):
            part = b"%04d-%04d " % (number, turn) * (1 + number % 7)
            far.send(part)
            expected[number] += part
        with collecting(turn):
            for number, recorder in enumerate(recorders):
                await recorder.until(lambda: len(recorder.received()) >= len(expected[number]))  # noqa: B023
        gc.collect()
    for (_, far), recorder in zip(pairs, recorders, strict=True):
        far.close()
        await recorder.seen("lost")
    assert [recorder.received() for recorder in recorders] == expected


async def drop_some() -> None:
    """Drop writers of connections that are being received from, and transports that are not."""
    for number in range(4):
        near, far = unix_pair()
        if number % 2:
            Ring(*await open_streams(near), far)
        else:
            transport, protocol = await asyncio.get_running_loop().connect_accepted_socket(Recorder, near)
            transport.pause_reading()
            await settle()
            Ring(transport, protocol, far)


def test_collector_in_the_middle_of_a_harvest_loses_and_doubles_nothing(loop: Any) -> None:
    run(loop, exchange(40, drop_some, at_allocation))


@pytest.mark.loopcore_only  # finalizers in the collector's thread close transports, which asyncio's cannot bear
def test_collector_that_never_rests_loses_and_doubles_nothing(loop: Any) -> None:
    with all_the_time():
        run(loop, exchange(40, drop_some, contextlib.nullcontext))


async def test_finalizer_may_close_what_the_same_harvest_has_received_for(loop: Any) -> None:
    """It runs in the middle of a harvest, and closes connections of which that has results, or had."""

    async def once(turn: int) -> None:
        loop = asyncio.get_running_loop()
        pairs = [unix_pair() for _ in range(20)]
        recorders = [Recorder() for _ in pairs]
        transports = [
            (await loop.connect_accepted_socket(lambda: recorder, near))[0]  # noqa: B023
            for (near, _), recorder in zip(pairs, recorders, strict=True)
        ]
        await settle()
        Closer(*transports[::2])
        for number, (_, far) in enumerate(pairs):
            far.send(b"%04d" % number)
        with at_allocation(turn):
            for recorder in recorders[1::2]:
                await recorder.seen("data")
        gc.collect()
        for recorder in recorders[::2]:
            await recorder.seen("lost")
        for transport in transports:
            transport.close()
        for number, (recorder, (_, far)) in enumerate(zip(recorders, pairs, strict=True)):
            await recorder.seen("lost")
            assert recorder.received() in ([b"%04d" % number] if number % 2 else [b"%04d" % number, b""])
            far.close()

    for turn in range(TURNS):
        await once(turn)
