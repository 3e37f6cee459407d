"""Traffic of production, played against a simulated server."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from loopcore import sim
from loopcore.errors import UsageError
from loopcore.sim.search import Fifo
from loopcore.sim.traffic import (
    Connection,
    Exchange,
    Move,
    Traffic,
    UnansweredError,
    http,
    lines,
    played,
    repeated,
)

Program = Callable[[], Coroutine[Any, Any, Any]]


def one(*moves: tuple[Any, ...], accepted: float = 0.0, closed: float | None = None, number: int = 1) -> Connection:
    return Connection(number, "Echo", accepted, [Move(*move) for move in moves], closed)


def run(traffic: Traffic, program: Program, **options: Any) -> None:
    sim.run(played(traffic, program, **options), strategy=Fifo())


def serving(handle: Callable[..., Any], host: str = "0.0.0.0", ports: tuple[int, ...] = (7000,)) -> Program:
    async def main() -> None:
        servers = [await asyncio.start_server(handle, host, port) for port in ports]
        await asyncio.gather(*(server.serve_forever() for server in servers))

    return main


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(1000):
        writer.write(data)
    writer.close()


ASKED = Traffic([one((0.1, "received", 5), (0.2, "sent", 5), closed=0.3)], 0.5)


def test_exchanges_are_split_where_bytes_arrive_after_an_answer() -> None:
    first, second, third = (0.1, "received", 3), (0.2, "received", 4), (0.5, "received", 1)
    connection = one(first, second, (0.3, "sent", 2), (0.4, "sent", 2), third, (0.6, "end"))
    assert connection.exchanges() == [
        Exchange([Move(*first), Move(*second)], 4),
        Exchange([Move(*third), Move(0.6, "end")], 0),
    ]
    assert [exchange.size for exchange in connection.exchanges()] == [7, 1]


def test_a_server_that_speaks_first_has_an_exchange_without_a_request() -> None:
    assert one((0.1, "sent", 20), (0.2, "received", 1)).exchanges() == [
        Exchange([], 20),
        Exchange([Move(0.2, "received", 1)], 0),
    ]


def test_json_keeps_everything(tmp_path: Path) -> None:
    traffic = Traffic([one((0.1, "received", 5), (0.2, "sent", 7), (0.3, "end"), closed=0.25)], 1.5, omitted=2)
    traffic.to_json(tmp_path / "traffic.json")
    assert Traffic.from_json(tmp_path / "traffic.json") == traffic
    assert Traffic.read(tmp_path / "traffic.json") == traffic


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"traffic": 2}', '{"traffic": 1, "seconds": 1, "connections": 3}'])
def test_another_file_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "other").write_text(text)
    with pytest.raises(UsageError, match="other"):
        Traffic.read(tmp_path / "other")


@pytest.mark.parametrize("size", [1, 2, 100])
def test_lines_and_repeated_samples_have_the_size(size: int) -> None:
    connection = one()
    assert len(lines(connection, size)) == size
    assert lines(connection, size).endswith(b"\n")
    assert repeated(b"PING\r\n")(connection, size) == (b"PING\r\n" * size)[:size]


def test_requests_of_http_have_the_size() -> None:
    request = http("/chat", "server")
    shortest = b"GET /chat HTTP/1.1\r\nHost: server\r\n\r\n"
    assert request(one(), len(shortest)) == shortest
    for size in range(len(shortest) + 6, 200):
        text = request(one(), size)
        assert len(text) == size
        assert text.endswith(b"\r\n\r\n")
        assert text.count(b"\r\n\r\n") == 1
    with pytest.raises(UsageError, match="received 20 bytes"):
        request(one(), 20)


def test_what_is_sent_arrives_at_the_recorded_times_in_asyncios_order() -> None:
    seen: list[tuple[float, int]] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        begin = sim.now()
        while data := await reader.read(1000):
            seen.append((sim.now() - begin, len(data)))
            writer.write(data)
        seen.append((sim.now() - begin, 0))
        writer.close()

    connection = one((0.1, "received", 5), (0.15, "sent", 5), (0.2, "received", 30), (0.25, "sent", 30), closed=0.4)
    run(Traffic([connection], 0.5), serving(handle))
    assert [size for _, size in seen] == [5, 30, 0]
    assert [when for when, _ in seen] == pytest.approx([0.1, 0.2, 0.4], abs=1e-3)


def test_speed_shortens_the_times() -> None:
    async def main() -> float:
        await played(ASKED, serving(echo), speed=10.0)()
        return sim.now()

    assert sim.run(main, strategy=Fifo()) == pytest.approx(0.03, abs=5e-3)


def test_a_request_after_an_answer_waits_for_it() -> None:
    order: list[str] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1000):
            order.append(f"request of {len(data)}")
            await asyncio.sleep(1.0)
            order.append("answer")
            writer.write(data)
        writer.close()

    moves = [(0.1, "received", 5), (0.11, "sent", 5), (0.2, "received", 6), (0.21, "sent", 6)]
    run(Traffic([one(*moves, closed=0.3)], 0.5), serving(handle))
    assert order == ["request of 5", "answer", "request of 6", "answer"]


def test_the_end_of_the_clients_stream_is_sent() -> None:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"%d" % len(await reader.read()))
        writer.close()

    run(Traffic([one((0.1, "received", 5), (0.2, "end"), (0.3, "sent", 1), closed=0.3)], 0.5), serving(handle))


def test_an_answer_that_does_not_come_is_a_failure() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async def closing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.close()

    with pytest.raises(UnansweredError, match=r"no answer within 60 s to request 1 of connection 1 \(5 bytes\)"):
        run(ASKED, serving(silent))
    with pytest.raises(UnansweredError, match="before it answered request 1 of connection 1"):
        run(ASKED, serving(closing))


def test_what_the_server_reports_is_a_failure() -> None:
    async def broken(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        raise LookupError("a bug")

    with pytest.raises(LookupError, match="a bug"):
        run(ASKED, serving(broken))


def test_a_race_that_needs_overlapping_requests_is_found() -> None:
    def server() -> Program:
        total = 0

        async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal total
            while line := await reader.readline():
                before = total
                await asyncio.sleep(0.001)
                assert total == before, "lost update"
                total = before + len(line)
                writer.write(b"ok\n")
            writer.close()

        return serving(handle)

    apart = Traffic(
        [
            one((0.1, "received", 5), (0.102, "sent", 3), closed=0.2),
            one((0.105, "received", 6), (0.107, "sent", 3), closed=0.2, number=2),
        ],
        0.5,
    )

    async def main() -> None:
        await played(apart, server())()

    sim.run(main, strategy=Fifo())  # as in production
    failure = sim.search(main, seeds=range(200)).failure
    assert failure is not None
    assert "lost update" in str(failure.error)


@pytest.mark.parametrize(
    ("program", "options", "message"),
    [
        (serving(echo, host="127.0.0.1"), {}, "let it bind 0.0.0.0"),
        (serving(echo, ports=(7000, 7001)), {}, "--port 7000"),
        (serving(echo), {"port": 9}, "has not listened"),
        (serving(echo), {"speed": 0.0}, "speed"),
        (serving(echo), {"request": lambda connection, size: b""}, "made 0 bytes"),
    ],
)
def test_what_cannot_be_played_is_refused(program: Program, options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        run(ASKED, program, **options)


def test_one_of_several_ports_is_chosen() -> None:
    run(ASKED, serving(echo, ports=(7000, 7001)), port=7001)
