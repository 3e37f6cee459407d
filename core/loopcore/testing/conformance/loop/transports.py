"""Transports: connections, datagrams, Unix sockets and children, as programs use them."""

import asyncio
import os
import socket
import struct
import sys
from pathlib import Path
from typing import Any

import pytest

from loopcore.loop import EventLoop
from loopcore.testing.conformance.loop.base import LoopLevel

LARGE = 2 * 1024 * 1024
LINGER_NOT = struct.pack("hh" if sys.platform == "win32" else "ii", 1, 0)


class Slow(asyncio.Protocol):
    """Reads nothing until reading is resumed, then everything."""

    def __init__(self) -> None:
        self.connected = asyncio.get_running_loop().create_future()
        self.ended = asyncio.get_running_loop().create_future()
        self.size = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.pause_reading()
        self.connected.set_result(transport)

    def data_received(self, data: bytes) -> None:
        self.size += len(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended.set_result(exc)


class Echo(asyncio.DatagramProtocol):
    """Sends every datagram back."""

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def datagram_received(self, data: bytes, address: tuple[str, int]) -> None:
        self.transport.sendto(data, address)


class Inbox(asyncio.DatagramProtocol):
    """Keeps the datagrams it receives."""

    def __init__(self) -> None:
        self.came: asyncio.Queue[bytes] = asyncio.Queue()

    def datagram_received(self, data: bytes, address: tuple[str, int]) -> None:
        self.came.put_nowait(data)


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while part := await reader.read(65536):
            writer.write(part)
            await writer.drain()
    except ConnectionError:
        pass
    writer.close()


async def until_closed(*writers: asyncio.StreamWriter) -> None:
    for writer in writers:
        writer.close()
        await writer.wait_closed()


class Transports(LoopLevel):
    """Streams, datagrams, Unix sockets and children between two programs."""

    def test_large_stream_comes_back_whole_and_in_order(self, loop: EventLoop) -> None:
        sent = b"".join(struct.pack("!I", number) for number in range(LARGE // 4))

        async def work() -> bytes:
            async with await asyncio.start_server(echo, "127.0.0.1", 0) as server:
                reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())

                async def send() -> None:
                    for start in range(0, LARGE, 100_000):
                        writer.write(sent[start : start + 100_000])
                        await writer.drain()
                    writer.write_eof()

                _, came = await asyncio.gather(send(), reader.read(-1))
                await until_closed(writer)
                return came

        assert self.run(loop, work()) == sent

    def test_connections_do_not_starve_each_other(self, loop: EventLoop) -> None:
        async def talk(address: tuple[str, int], number: int) -> int:
            reader, writer = await asyncio.open_connection(*address)
            for _ in range(10):
                writer.write(b"%4d" % number)
                assert await reader.readexactly(4) == b"%4d" % number
            await until_closed(writer)
            return number

        async def work() -> list[int]:
            async with await asyncio.start_server(echo, "127.0.0.1", 0, backlog=64) as server:
                address = server.sockets[0].getsockname()
                return [*await asyncio.gather(*(talk(address, number) for number in range(40)))]

        assert self.run(loop, work()) == [*range(40)]

    def test_half_closed_connection_goes_on_in_the_other_direction(self, loop: EventLoop) -> None:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            question = await reader.read(-1)
            writer.write(question[::-1])
            await until_closed(writer)

        async def work() -> bytes:
            async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
                reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
                writer.write(b"abc")
                writer.write_eof()
                came = await reader.read(-1)
                await until_closed(writer)
                return came

        assert self.run(loop, work()) == b"cba"

    def test_slow_reader_stops_the_writer_and_loses_nothing(self, loop: EventLoop) -> None:
        async def work() -> int:
            slow = Slow()
            server = await loop.create_server(lambda: slow, "127.0.0.1", 0)
            _, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            transport = await slow.connected
            size = 0
            while not writer.transport.get_write_buffer_size():
                writer.write(bytes(100_000))
                size += 100_000
                await asyncio.sleep(0)
            assert not slow.size
            transport.resume_reading()
            await until_closed(writer)
            assert await slow.ended is None
            server.close()
            return size - slow.size

        assert self.run(loop, work()) == 0

    def test_reset_connection_is_an_error_of_the_reader(self, loop: EventLoop) -> None:
        async def work() -> None:
            with socket.create_server(("127.0.0.1", 0)) as listening:
                reader, writer = await asyncio.open_connection(*listening.getsockname())
                accepted, _ = listening.accept()
                accepted.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_NOT)
                accepted.close()
                with pytest.raises(ConnectionResetError):
                    await reader.read(1)
                writer.close()

        self.run(loop, work())

    def test_refused_connection_is_an_error_of_the_connector(self, loop: EventLoop) -> None:
        with socket.socket() as bound:
            bound.bind(("127.0.0.1", 0))

            async def work() -> None:
                with pytest.raises(ConnectionRefusedError):
                    await asyncio.open_connection(*bound.getsockname())

            self.run(loop, work())

    def test_datagrams_come_back(self, loop: EventLoop) -> None:
        async def work() -> list[bytes]:
            served, _ = await loop.create_datagram_endpoint(Echo, ("127.0.0.1", 0))
            address = served.get_extra_info("sockname")
            transport, inbox = await loop.create_datagram_endpoint(Inbox, remote_addr=address)
            came = []
            for number in range(20):
                transport.sendto(b"%d" % number)
                came.append(await inbox.came.get())
            transport.close()
            served.close()
            await asyncio.sleep(0)
            return came

        assert self.run(loop, work()) == [b"%d" % number for number in range(20)]

    @pytest.mark.skipif(not hasattr(socket, "AF_UNIX"), reason="Unix sockets")
    def test_unix_socket_serves(self, loop: EventLoop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)  # the address of a socket is short

        async def work() -> bytes:
            async with await asyncio.start_unix_server(echo, "socket"):
                reader, writer = await asyncio.open_unix_connection("socket")
                writer.write(b"hello")
                came = await reader.readexactly(5)
                await until_closed(writer)
                return came

        assert self.run(loop, work()) == b"hello"

    @pytest.mark.skipif(os.name != "posix", reason="pipes that can be watched")
    def test_child_is_written_to_read_from_and_its_end_is_told(self, loop: EventLoop) -> None:
        async def work() -> tuple[bytes, int | None]:
            program = "import sys; sys.stdout.write(sys.stdin.read().upper()); sys.exit(3)"
            pipe = asyncio.subprocess.PIPE
            child = await asyncio.create_subprocess_exec(sys.executable, "-c", program, stdin=pipe, stdout=pipe)
            out, _ = await child.communicate(b"word" * 20_000)
            return out, child.returncode

        assert self.run(loop, work()) == (b"WORD" * 20_000, 3)
