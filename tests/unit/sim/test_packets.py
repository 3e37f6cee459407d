"""One write may arrive in two packets, and a call of a program that does not block may take a part of its data."""

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest

from loopcore import sim

MESSAGE = b"hello world"
Read = Callable[[asyncio.StreamReader], Awaitable[bytes]]


def one_message(read: Read, host: str = "127.0.0.1") -> Callable[[], Awaitable[None]]:
    """A program whose server reads a message by `read`."""

    async def serve() -> None:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"got %b\n" % await read(reader))
            writer.close()

        server = await asyncio.start_server(answer, port=80)
        await server.serve_forever()

    async def main() -> None:
        if host == "127.0.0.1":
            serving = asyncio.create_task(serve())
            await asyncio.sleep(0)
        else:
            sim.host(host, serve)
        await asyncio.sleep(1)
        reader, writer = await asyncio.open_connection(host, 80)
        writer.write(MESSAGE)
        answer = await reader.readline()
        writer.close()
        if host == "127.0.0.1":
            serving.cancel()
        assert answer == b"got hello world\n"

    return main


@pytest.mark.parametrize("host", ["127.0.0.1", "server"])
def test_a_read_that_takes_what_has_come_for_a_message_is_found(host: str) -> None:
    found = sim.search(one_message(lambda reader: reader.read(100), host), seeds=200)
    assert found.failure is not None
    assert [change.label.partition(":")[0] for change in found.failure.changes] == ["split"]
    clean = sim.search(one_message(lambda reader: reader.readexactly(len(MESSAGE)), host), seeds=200)
    assert clean.failure is None, sim.in_words(clean.failure)
    assert clean.runs == 200


def test_every_split_is_a_packet_of_its_own_and_the_bytes_stay_in_order() -> None:
    seen: set[tuple[bytes, ...]] = set()

    async def main() -> None:
        loop = asyncio.get_running_loop()
        with socket.create_server(("127.0.0.1", 80)) as listener, socket.create_connection(("127.0.0.1", 80)) as client:
            server, _ = listener.accept()
            with server:
                server.setblocking(False)
                client.sendall(MESSAGE)
                client.shutdown(socket.SHUT_WR)
                parts = []
                while part := await loop.sock_recv(server, 100):
                    parts.append(part)
        assert b"".join(parts) == MESSAGE
        seen.add(tuple(parts))

    sim.check(main, seeds=200)
    assert seen == {(MESSAGE,), (b"h", b"ello world"), (b"hello", b" world"), (b"hello worl", b"d")}


@pytest.mark.parametrize("write", [lambda sock: sock.send(MESSAGE), lambda sock: os.write(sock.fileno(), MESSAGE)])
def test_a_write_that_does_not_block_may_take_a_part(write: Callable[[socket.socket], int]) -> None:
    taken: set[int] = set()

    def talk(*, blocks: bool) -> Callable[[], Awaitable[None]]:
        async def main() -> None:
            with (
                socket.create_server(("127.0.0.1", 80)) as listener,
                socket.create_connection(("127.0.0.1", 80)) as client,
            ):
                client.setblocking(blocks)
                server, _ = listener.accept()
                with server:
                    size = write(client)
                    client.shutdown(socket.SHUT_WR)
                    assert b"".join(iter(lambda: server.recv(100), b"")) == MESSAGE[:size]
                taken.add(size)

        return main

    sim.check(talk(blocks=True), seeds=100)
    assert taken == {11}
    sim.check(talk(blocks=False), seeds=100)
    assert taken == {11, 5, 1}


def test_a_program_whose_writes_are_split_is_deterministic() -> None:
    main = one_message(lambda reader: reader.readexactly(len(MESSAGE)), "server")
    assert [found for seed in range(50) if (found := sim.diverges(main, seed)) is not None] == []


async def datagrams(count: int) -> int:
    """Send datagrams to a host that loses 3 of 10; return how many arrive."""
    sim.link("main", "main", loss=0.3, delays=[0.0])
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender,
    ):
        receiver.bind(("127.0.0.1", 5000))
        receiver.setblocking(False)
        arrived = 0
        for _ in range(count):
            sender.sendto(b"x", ("127.0.0.1", 5000))
            with suppress(BlockingIOError):
                arrived += len(receiver.recv(10))
        return arrived


@pytest.mark.parametrize("seed", range(1, 9))
def test_loss_has_its_probability_in_every_random_run(seed: int) -> None:
    assert 600 < sim.run(lambda: datagrams(1000), seed=seed) < 800


def test_asyncios_own_order_loses_nothing() -> None:
    assert sim.run(lambda: datagrams(100)) == 100


def test_a_loss_is_a_choice_that_is_shrunk_replayed_and_tried() -> None:
    async def main() -> None:
        assert await datagrams(10) > 7

    found = sim.search(main).failure
    assert found is not None
    assert len(found.changes) == 3
    assert "loss: datagram 'x' from main to main" in sim.in_words(found)
    with pytest.raises(AssertionError):
        sim.replay(main, found.token)
    tried = sim.search(main, by="bounded")  # two losses at the most
    assert tried.is_exhausted
    assert tried.runs == 1 + 10 + 45
    assert sim.search(main, by="coverage").failure is not None


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="an option of Linux")
@pytest.mark.parametrize(("milliseconds", "seconds"), [(30_000, 30.0), (0, 924.0)])
def test_tcp_user_timeout_ends_a_connection_whose_data_does_not_arrive(milliseconds: int, seconds: float) -> None:
    async def serve() -> None:
        server = await asyncio.start_server(lambda reader, writer: None, port=80)
        await server.serve_forever()

    async def main() -> float:
        sim.host("server", serve)
        await asyncio.sleep(1)
        reader, writer = await asyncio.open_connection("server", 80)
        writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, milliseconds)
        sim.cut("main", "server")
        before = sim.now()
        writer.write(b"x")
        with pytest.raises(TimeoutError):
            await reader.read()
        writer.close()
        return sim.now() - before

    assert sim.run(main) == pytest.approx(seconds, abs=0.1)
