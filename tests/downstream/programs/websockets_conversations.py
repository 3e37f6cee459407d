"""Conversations over WebSocket: what programs do with the library websockets, on whatever loop asyncio makes.

Client and server run on one loop, over real sockets on the loopback. Run by pytest; the library's sdist has no tests.
"""

import asyncio
import contextlib
import http
import os
import ssl
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import trustme
from websockets.asyncio.client import ClientConnection, connect, unix_connect
from websockets.asyncio.server import Server, ServerConnection, basic_auth, broadcast, serve, unix_serve
from websockets.exceptions import ConnectionClosedError, ConnectionClosedOK, InvalidStatus, PayloadTooBig
from websockets.http11 import Request, Response

Handler = Callable[[ServerConnection], Awaitable[None]]
PATIENCE = 20.0


async def echo(connection: ServerConnection) -> None:
    async for message in connection:
        await connection.send(message)


@contextlib.asynccontextmanager
async def serving(handler: Handler, **options: Any) -> AsyncIterator[tuple[Server, str]]:
    """Serve on the loopback; yields the server and its address."""
    async with serve(handler, "127.0.0.1", 0, **options) as server:
        scheme = "wss" if "ssl" in options else "ws"
        yield server, f"{scheme}://127.0.0.1:{server.sockets[0].getsockname()[1]}"


@contextlib.asynccontextmanager
async def talking(handler: Handler = echo, **options: Any) -> AsyncIterator[ClientConnection]:
    """Connect to a server of its own; `client_...` options are the client's."""
    for_client = {name.removeprefix("client_"): options.pop(name) for name in list(options) if name[:7] == "client_"}
    async with serving(handler, **options) as (_, address), connect(address, **for_client) as client:
        yield client


def run(main: Awaitable[None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(PATIENCE):
            await main

    asyncio.run(bounded())


@pytest.fixture(scope="module")
def contexts() -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """A context for a server, and one for clients that trust it."""
    authority = trustme.CA()
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(server)
    client = ssl.create_default_context()
    authority.configure_trust(client)
    return server, client


@pytest.mark.parametrize("compression", [None, "deflate"])
@pytest.mark.parametrize("size", [0, 1, 125, 126, 65_536, 900_000])
def test_text_and_bytes_come_back_as_they_were(size: int, compression: str | None) -> None:
    async def main() -> None:
        async with talking(compression=compression, client_compression=compression) as client:
            for message in ("x" * size, os.urandom(size)):
                await client.send(message)
                assert await client.recv() == message

    run(main())


def test_messages_in_fragments_are_one_message() -> None:
    async def main() -> None:
        async with talking() as client:
            await client.send(f"{number} " for number in range(500))
            assert await client.recv() == "".join(f"{number} " for number in range(500))

    run(main())


def test_fragments_are_received_one_by_one() -> None:
    async def handler(connection: ServerConnection) -> None:
        await connection.send([b"first ", b"second ", b"third"])

    async def main() -> None:
        async with talking(handler) as client:
            parts = [part async for part in client.recv_streaming()]
            assert len(parts) >= 3
            assert b"".join(parts) == b"first second third"

    run(main())


def test_two_hundred_clients_at_once() -> None:
    async def main() -> None:
        async with serving(echo) as (_, address):

            async def talk(number: int) -> None:
                async with connect(address) as client:
                    for turn in range(10):
                        await client.send(f"{number}.{turn}")
                        assert await client.recv() == f"{number}.{turn}"

            await asyncio.gather(*map(talk, range(200)))

    run(main())


def test_broadcast_reaches_everybody() -> None:
    async def main() -> None:
        async with serving(lambda connection: connection.wait_closed()) as (server, address):
            async with contextlib.AsyncExitStack() as stack:
                clients = [await stack.enter_async_context(connect(address)) for _ in range(50)]
                broadcast(server.connections, "all")
                assert await asyncio.gather(*(client.recv() for client in clients)) == ["all"] * 50

    run(main())


def test_tls(contexts: tuple[ssl.SSLContext, ssl.SSLContext]) -> None:
    async def main() -> None:
        async with talking(ssl=contexts[0], client_ssl=contexts[1]) as client:
            message = os.urandom(700_000)
            await client.send(message)
            assert await client.recv() == message
            assert client.transport.get_extra_info("ssl_object").version() is not None

    run(main())


def test_a_certificate_that_nobody_vouches_for_is_refused(contexts: tuple[ssl.SSLContext, ssl.SSLContext]) -> None:
    async def main() -> None:
        async with serving(echo, ssl=contexts[0]) as (_, address):
            with pytest.raises(ssl.SSLCertVerificationError):
                await connect(address)

    run(main())


def test_unix_sockets(tmp_path: Path) -> None:
    async def main() -> None:
        path = str(tmp_path / "socket")
        async with unix_serve(echo, path), unix_connect(path, uri="ws://localhost/") as client:
            await client.send("hello")
            assert await client.recv() == "hello"

    run(main())


@pytest.mark.parametrize("who", ["client", "server"])
def test_closing_says_code_and_reason(who: str) -> None:
    seen: list[int | None] = []

    async def handler(connection: ServerConnection) -> None:
        if who == "server":
            await connection.close(4000, "enough")
        await connection.wait_closed()
        seen.append(connection.close_code)

    async def main() -> None:
        async with serving(handler) as (server, address):
            client = await connect(address)
            if who == "client":
                await client.close(4000, "enough")
            else:
                with pytest.raises(ConnectionClosedError):
                    await client.recv()
            assert (client.close_code, client.close_reason) == (4000, "enough")
            server.close()
            await server.wait_closed()
            assert seen == [4000]

    run(main())


def test_closing_the_server_tells_its_clients_it_goes_away() -> None:
    async def main() -> None:
        async with serving(echo) as (server, address):
            client = await connect(address)
            server.close()
            with pytest.raises(ConnectionClosedOK) as caught:
                await client.recv()
            assert caught.value.rcvd is not None
            assert caught.value.rcvd.code == 1001

    run(main())


def test_a_connection_cut_off_is_an_abnormal_end() -> None:
    async def handler(connection: ServerConnection) -> None:
        connection.transport.abort()

    async def main() -> None:
        async with talking(handler) as client:
            with pytest.raises(ConnectionClosedError):
                await client.recv()
            assert client.close_code == 1006

    run(main())


def test_a_client_that_does_not_read_holds_up_the_server() -> None:
    sent = 0

    async def handler(connection: ServerConnection) -> None:
        nonlocal sent
        while True:
            await connection.send(b"x" * 65_536)
            sent += 1

    async def main() -> None:
        async with talking(handler, compression=None, client_max_queue=2) as client:
            before = -1
            while sent != before:  # until a while passes in which nothing could be sent
                before = sent
                await asyncio.sleep(0.2)
            for _ in range(before):
                assert len(await client.recv()) == 65_536
            await client.recv()
            assert sent > before

    run(main())


def test_a_message_too_big_ends_the_connection() -> None:
    async def main() -> None:
        async with talking(client_max_size=1000) as client:
            await client.send("x" * 1001)
            with pytest.raises(ConnectionClosedError) as caught:
                await client.recv()
            assert caught.value.sent is not None
            assert caught.value.sent.code == 1009
            assert isinstance(caught.value.__cause__, PayloadTooBig)

    run(main())


def test_pings_are_answered() -> None:
    async def main() -> None:
        async with talking() as client:
            assert await (await client.ping()) >= 0.0

    run(main())


def test_keepalive_ends_a_connection_that_does_not_answer() -> None:
    async def main() -> None:
        ended = asyncio.get_running_loop().create_future()

        async def handler(connection: ServerConnection) -> None:
            with pytest.raises(ConnectionClosedError) as caught:
                await connection.recv()
            ended.set_result(caught.value.sent)

        async with serving(handler, ping_interval=0.1, ping_timeout=0.1, close_timeout=0.1) as (_, address):
            async with connect(address) as client:
                client.transport.pause_reading()
                assert (await ended).code == 1011
                client.transport.resume_reading()

    run(main())


def test_a_request_can_be_refused() -> None:
    def refuse(connection: ServerConnection, request: Request) -> Response | None:
        return connection.respond(http.HTTPStatus.IM_A_TEAPOT, "short and stout")

    async def main() -> None:
        async with serving(echo, process_request=refuse) as (_, address):
            with pytest.raises(InvalidStatus) as caught:
                await connect(address)
            assert caught.value.response.status_code == 418
            assert caught.value.response.body == b"short and stout"

    run(main())


def test_basic_authentication() -> None:
    async def main() -> None:
        async with serving(echo, process_request=basic_auth(credentials=("me", "secret"))) as (_, address):
            async with connect(address.replace("//", "//me:secret@")) as client:
                await client.send("hello")
                assert await client.recv() == "hello"
            with pytest.raises(InvalidStatus):
                await connect(address.replace("//", "//me:wrong@"))

    run(main())


def test_a_client_that_iterates_connects_again() -> None:
    async def handler(connection: ServerConnection) -> None:
        await connection.send("once")

    async def main() -> None:
        async with serving(handler) as (_, address):
            received = 0
            async for client in connect(address):
                assert await client.recv() == "once"
                received += 1
                if received == 3:
                    await client.close()
                    break

    run(main())


def test_a_cancelled_recv_loses_nothing() -> None:
    async def handler(connection: ServerConnection) -> None:
        await connection.recv()
        await connection.send("late")

    async def main() -> None:
        async with talking(handler) as client:
            waiting = asyncio.create_task(client.recv())
            await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            await client.send("go")
            assert await client.recv() == "late"

    run(main())


def test_messages_from_a_thread() -> None:
    async def main() -> None:
        async with talking() as client:
            loop = asyncio.get_running_loop()

            def work() -> None:
                for number in range(100):
                    asyncio.run_coroutine_threadsafe(client.send(str(number)), loop).result(PATIENCE)

            thread = threading.Thread(target=work)
            thread.start()
            assert [await client.recv() for _ in range(100)] == [str(number) for number in range(100)]
            thread.join()

    run(main())
