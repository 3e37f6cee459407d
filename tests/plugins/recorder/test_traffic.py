"""The connections of a dump, and the simulation that plays them against the server that was recorded."""

import asyncio
import importlib.util
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from loopcore import sim
from loopcore.errors import UsageError
from loopcore.sim.search import Fifo
from loopcore.sim.traffic import Traffic, played
from loopcore_plugins.recorder.reading import read
from loopcore_plugins.recorder.traffic import read_traffic, traffic_of
from tests.plugins.recorder.recording import PATIENCE, quiet, record
from tests.transports.tls_support import client_context, server_context

pytestmark = [
    pytest.mark.loopcore_only,
    pytest.mark.skipif(
        not sys.platform.startswith("linux"), reason="simulations are of Linux, and SIGTERM writes a dump"
    ),
]

SERVER = """
import asyncio
import contextlib

seen = []  # when, which connection, how many bytes
total = 0


async def serve(reader, writer):
    number = max([each for _, each, _ in seen], default=0) + 1
    seen.append((asyncio.get_running_loop().time(), number, 0))
    while data := await reader.read(1000):
        seen.append((asyncio.get_running_loop().time(), number, len(data)))
        writer.write(bytes(2 * len(data)))
    writer.close()


async def count(reader, writer):
    global total
    while line := await reader.readline():
        async with lock:
            before = total
            await asyncio.sleep(0.002)
            assert total == before, "lost update"
            total = before + len(line)
        writer.write(b"ok")
    writer.close()


async def run(handle, guard=contextlib.nullcontext()):
    global total, lock
    total, lock = 0, guard
    server = await asyncio.start_server(handle, "0.0.0.0", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


async def main():
    await run(serve)


async def racing():
    await run(count)


async def repaired():
    await run(count, asyncio.Lock())


if __name__ == "__main__":
    import sys

    asyncio.run(globals()[sys.argv[1]]())
"""


@contextmanager
def served(folder: Path, main: str) -> Iterator[int]:
    """Run the server with a recorder in another process; the value is its port. At the end it writes the dump."""
    (folder / "server.py").write_text(SERVER)
    plugins = f"recorder:connections=yes,at_exit=yes,stall=0,dumps={folder / 'dump.rec'}"
    command = [sys.executable, "-m", "loopcore", "run", "--backend", "epoll", "--plugin", plugins, "server.py", main]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=folder, text=True) as process:
        try:
            assert process.stdout is not None
            yield int(process.stdout.readline())
            process.send_signal(signal.SIGTERM)
            process.wait(PATIENCE)
        finally:
            process.kill()


def ask(client: socket.socket, size: int, answer: int) -> None:
    client.sendall(b"x" * (size - 1) + b"\n")
    while answer:
        answer -= len(client.recv(answer))


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a server, and the dump of its process."""
    folder = tmp_path_factory.mktemp("recorded")
    with served(folder, "main") as port:
        first, second = (socket.create_connection(("127.0.0.1", port), PATIENCE) for _ in range(2))
        for client, size in [(first, 100), (second, 7), (second, 40), (first, 1), (second, 999)]:
            ask(client, size, 2 * size)
        second.shutdown(socket.SHUT_WR)
        assert second.recv(1) == b""
        for client in (second, first):
            client.close()
    return folder


def loaded(folder: Path) -> Any:
    spec = importlib.util.spec_from_file_location("recorded_server", folder / "server.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_traffic_is_what_the_clients_did(recorded: Path) -> None:
    traffic = Traffic.read(recorded / "dump.rec")
    assert traffic.omitted == 0
    first, second = traffic.connections
    assert [(move.what, move.size) for move in first.moves[:4]] == [
        ("received", 100), ("sent", 200), ("received", 1), ("sent", 2),
    ]  # fmt: skip
    assert [(move.what, move.size) for move in second.moves] == [
        ("received", 7), ("sent", 14), ("received", 40), ("sent", 80), ("received", 999), ("sent", 1998), ("end", 0),
    ]  # fmt: skip
    moves = sorted(
        (move.at, move.size) for each in traffic.connections for move in each.moves if move.what == "received"
    )
    assert [size for _, size in moves] == [100, 7, 40, 1, 999]
    assert 0.0 == first.accepted <= second.accepted
    assert moves[0][0] > 0.0
    assert second.closed is not None
    assert moves[-1][0] <= second.closed <= traffic.seconds


def test_the_simulated_server_sees_the_same_sizes_in_the_same_order_at_the_same_times(recorded: Path) -> None:
    traffic = Traffic.read(recorded / "dump.rec")
    module = loaded(recorded)
    sim.run(played(traffic, module.main), strategy=Fifo())
    wanted = sorted(
        (move.at, each.number, move.size)
        for each in traffic.connections
        for move in each.moves
        if move.what == "received"
    )
    begin = module.seen[0][0]
    arrived = [(when - begin, number, size) for when, number, size in module.seen if size]
    assert [each[1:] for each in arrived] == [each[1:] for each in wanted]
    assert [each[0] for each in arrived] == pytest.approx([each[0] for each in wanted], abs=1e-3)


def test_every_order_that_the_network_can_cause_is_answered(recorded: Path) -> None:
    traffic = Traffic.read(recorded / "dump.rec")
    assert sim.search(played(traffic, loaded(recorded).main), seeds=range(50)).failure is None


def loopcore(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "loopcore", "sim", *arguments]
    return subprocess.run(command, check=False, cwd=folder, capture_output=True, text=True, timeout=10 * PATIENCE)


@pytest.fixture(scope="module")
def raced(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a server that has a race, and the dump of a process in which no two requests overlapped."""
    folder = tmp_path_factory.mktemp("raced")
    with served(folder, "racing") as port:
        clients = [socket.create_connection(("127.0.0.1", port), PATIENCE) for _ in range(2)]
        for _ in range(10):
            for client in clients:
                ask(client, 10, 2)  # one after the other
        for client in clients:
            client.close()
    return folder


def test_the_command_finds_a_race_that_production_did_not_show(raced: Path) -> None:
    found = loopcore(raced, "replay", "dump.rec", "--on", "server.py:racing", "--seeds", "200")
    assert found.returncode == 1, found.stderr
    assert "AssertionError: lost update" in found.stdout
    again = found.stdout.split("loopcore sim replay ")[-1].split()
    repeated = loopcore(raced, "replay", *again)
    assert repeated.returncode == 1, repeated.stderr
    assert "AssertionError: lost update" in repeated.stderr
    assert "is not that of the token" not in repeated.stderr


def test_the_repaired_server_passes(raced: Path) -> None:
    traffic = Traffic.read(raced / "dump.rec")
    assert sim.search(played(traffic, loaded(raced).repaired), seeds=range(50)).failure is None


def test_a_dump_without_a_server_is_explained(recorded: Path) -> None:
    refused = loopcore(recorded, "replay", "dump.rec")
    assert refused.returncode != 0
    assert "--on FILE" in refused.stderr


def test_a_server_that_other_hosts_do_not_reach_is_explained(recorded: Path) -> None:
    server = (recorded / "server.py").read_text()
    (recorded / "local.py").write_text(server.replace("0.0.0.0", "127.0.0.1"))
    refused = loopcore(recorded, "replay", "dump.rec", "--on", "local.py")
    assert refused.returncode != 0
    assert "let it bind 0.0.0.0" in refused.stderr


def test_a_file_that_is_no_recording_is_left_to_others(tmp_path: Path) -> None:
    (tmp_path / "other").write_text("{}")
    assert read_traffic(tmp_path / "other") is None


def test_a_recording_without_connections_says_which_option_is_needed(loop: Any, tmp_path: Path) -> None:
    recording = record(loop, tmp_path, exchange)
    with pytest.raises(UsageError, match="connections=yes"):
        traffic_of(recording)


async def exchange() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.readexactly(1000))
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    writer.write(bytes(1000))
    assert len(await reader.read()) == 1000
    writer.close()
    await writer.wait_closed()
    server.close()
    await server.wait_closed()


async def test_a_tls_connection_counts_once_with_its_encrypted_bytes(loop: Any, tmp_path: Path) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.readexactly(1000))
        await writer.drain()
        await reader.read()
        writer.close()

    recorder = quiet(tmp_path, connections=True)
    loop.probes.register(recorder)
    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=server_context())
    address = server.sockets[0].getsockname()
    reader, writer = await asyncio.open_connection(*address, ssl=client_context(), server_hostname="localhost")
    writer.write(bytes(1000))
    assert len(await reader.readexactly(1000)) == 1000
    writer.close()
    await writer.wait_closed()
    server.close()
    await server.wait_closed()
    traffic = traffic_of(read(recorder.dump()))
    (connection,) = traffic.connections
    assert traffic.omitted == 0
    assert sum(move.size for move in connection.moves if move.what == "received") > 1000
    assert sum(move.size for move in connection.moves if move.what == "sent") > 1000


async def test_connections_that_were_open_before_are_left_out(loop: Any, tmp_path: Path) -> None:
    handlers: list[Any] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        handlers.append(asyncio.current_task())
        while data := await reader.read(100):
            writer.write(data)
        writer.close()
        await writer.wait_closed()

    recorder = quiet(tmp_path, connections=True)
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    address = server.sockets[0].getsockname()
    old_reader, old_writer = await asyncio.open_connection(*address)
    old_writer.write(b"a")
    await old_reader.readexactly(1)
    loop.probes.register(recorder)
    for reader, writer in [(old_reader, old_writer), await asyncio.open_connection(*address)]:
        writer.write(b"b" * 5)
        await reader.readexactly(5)
        writer.close()
        await writer.wait_closed()
    server.close()
    await asyncio.gather(*handlers)
    await server.wait_closed()
    (connection,) = traffic_of(read(recorder.dump())).connections
    assert [(move.what, move.size) for move in connection.moves] == [("received", 5), ("sent", 5), ("end", 0)]


def test_connections_of_clients_are_no_traffic(loop: Any, tmp_path: Path) -> None:
    recorder = quiet(tmp_path, connections=True)
    loop.probes.register(recorder)
    loop.run_until_complete(exchange())
    (connection,) = traffic_of(read(recorder.dump())).connections
    assert sum(move.size for move in connection.moves if move.what == "received") == 1000
    assert sum(move.size for move in connection.moves if move.what == "sent") == 1000
    assert connection.closed is not None
