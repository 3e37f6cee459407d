"""uvicorn on one loop, for connections that are accepted elsewhere: drain, lifespan, limits."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from loopcore.errors import UsageError
from loopcore.serving import draining
from loopcore.serving.member import Plan, SharedLifespan, serve_on

uvicorn = pytest.importorskip("uvicorn")
on_uvicorn = pytest.importorskip("loopcore.serving.on_uvicorn")

GET = b"GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n"


class App:
    """Answers /; holds /held until it is released; streams events at /events. Notes its lifespan."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.held = asyncio.Event()
        self.release = asyncio.Event()
        self.ending: Any = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await self._live(scope, receive, send)
            return
        if scope["path"] == "/held":
            self.held.set()
            await self.release.wait()
        kind = b"text/event-stream" if scope["path"] == "/events" else b"text/plain"
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", kind)]})
        if scope["path"] == "/events":
            await send({"type": "http.response.body", "body": b"data: 1\n\n", "more_body": True})
            if self.ending is not None:
                await draining()
                await self.ending(send)
                return
            await asyncio.Event().wait()
        await send({"type": "http.response.body", "body": str(scope["state"].get("name")).encode()})

    async def _live(self, scope: Any, receive: Any, send: Any) -> None:
        for _ in range(2):
            message = await receive()
            self.notes.append(message["type"])
            scope["state"]["name"] = "own"
            await send({"type": f"{message['type']}.complete"})


class Running:
    """A server, the address of its listener, and its application."""

    def __init__(self, app: App, server: Any, listener: asyncio.Server) -> None:
        self.app, self.server, self.listener = app, server, listener
        self.address = listener.sockets[0].getsockname()

    async def get(self, path: bytes = b"/") -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection(*self.address)
        writer.write(GET % path)
        return reader, writer

    async def stop(self, timeout: float) -> Any:
        self.listener.close()
        return await self.server.stop(timeout)


@asynccontextmanager
async def running(**options: Any) -> AsyncIterator[Running]:
    app = App()
    server = on_uvicorn.UvicornServer(on_uvicorn.make_config(app, {"log_level": "critical", **options}))
    await server.start()
    listener = await asyncio.get_running_loop().create_server(server.make_protocol, "127.0.0.1", 0)
    yield Running(app, server, listener)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_uvicorn, "SWEEP", 0.001)
    monkeypatch.setattr(on_uvicorn, "NEW", 0.0)


async def head(reader: asyncio.StreamReader) -> bytes:
    return await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 10)


async def rest(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
    data = await asyncio.wait_for(reader.read(), 10)
    writer.close()
    return data


async def test_an_idle_connection_does_not_delay_the_end() -> None:
    async with running() as run:
        reader, writer = await run.get()
        assert b"200 OK" in await head(reader)
        assert await run.stop(60) == {}
        assert (await rest(reader, writer)).endswith(b"own\r\n0\r\n\r\n")
        assert run.app.notes == ["lifespan.startup", "lifespan.shutdown"]


async def test_a_request_that_has_arrived_is_answered() -> None:
    async with running() as run:
        reader, writer = await run.get(b"/")
        reader2, writer2 = await run.get(b"/held")
        await asyncio.wait_for(run.app.held.wait(), 10)
        stopping = asyncio.ensure_future(run.stop(60))
        while not run.server.drain.begun.is_set():
            await asyncio.sleep(0)
        run.app.release.set()
        assert await stopping == {}
        assert b"200 OK" in await rest(reader, writer)
        assert b"200 OK" in await rest(reader2, writer2)


async def test_a_new_connection_may_still_send_its_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_uvicorn, "NEW", 60.0)
    async with running() as run:
        reader, writer = await asyncio.open_connection(*run.address)
        while not run.server.connections:
            await asyncio.sleep(0)
        stopping = asyncio.ensure_future(run.stop(60))
        while not run.server.drain.begun.is_set():
            await asyncio.sleep(0)
        writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert b"200 OK" in await rest(reader, writer)
        assert await stopping == {}


async def test_the_deadline_completes_an_event_stream_and_refuses_a_request_without_an_answer() -> None:
    async with running() as run:
        reader, writer = await run.get(b"/events")
        await asyncio.wait_for(reader.readuntil(b"data: 1\n\n\r\n"), 10)
        held_reader, held_writer = await run.get(b"/held")
        await asyncio.wait_for(run.app.held.wait(), 10)
        assert await run.stop(0) == {"event streams": 1, "requests": 1}
        assert await rest(reader, writer) == b"0\r\n\r\n"
        assert (await rest(held_reader, held_writer)).startswith(b"HTTP/1.1 503 ")


async def test_an_application_ends_its_stream_when_it_learns_of_the_drain() -> None:
    async def goodbye(send: Any) -> None:
        await send({"type": "http.response.body", "body": b"data: bye\n\n"})

    async with running() as run:
        run.app.ending = goodbye
        reader, writer = await run.get(b"/events")
        await asyncio.wait_for(reader.readuntil(b"data: 1\n\n\r\n"), 10)
        assert await run.stop(60) == {}
        assert b"data: bye" in await rest(reader, writer)


async def test_a_websocket_gets_1012_at_the_deadline() -> None:
    websockets = pytest.importorskip("websockets.asyncio.client")
    from websockets.exceptions import ConnectionClosed

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.accept"})
            await receive()

    server = on_uvicorn.UvicornServer(on_uvicorn.make_config(app, {"log_level": "critical"}))
    await server.start()
    listener = await asyncio.get_running_loop().create_server(server.make_protocol, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    connection = await websockets.connect(f"ws://127.0.0.1:{port}/", ping_interval=None)
    listener.close()
    stopping = asyncio.ensure_future(server.stop(0))
    with pytest.raises(ConnectionClosed) as closed:
        await asyncio.wait_for(connection.recv(), 10)
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1012
    assert await stopping == {"WebSockets": 1}


async def test_a_guest_takes_the_state_of_another_loop_and_has_no_lifespan() -> None:
    app = App()
    server = on_uvicorn.UvicornServer(on_uvicorn.make_config(app, {"log_level": "critical", "lifespan": "off"}))
    await server.start({"name": "shared"})
    run = Running(app, server, await asyncio.get_running_loop().create_server(server.make_protocol, "127.0.0.1", 0))
    reader, writer = await run.get()
    await head(reader)
    await run.stop(60)
    assert b"shared" in await rest(reader, writer)
    assert not app.notes


async def test_a_guest_that_fails_does_not_delay_the_end_of_the_shared_lifespan() -> None:
    def configure(app: Any) -> Any:
        raise LookupError

    lifespan = SharedLifespan(2)
    plan = Plan(lambda member: App(), "uvicorn", lifespan=lifespan, configure=configure)
    guest: Any = SimpleNamespace(index=1, generation=0, kind="threads")
    for _ in range(2):  # leaving is idempotent
        with pytest.raises(LookupError):
            await serve_on(plan, guest)
    await asyncio.wait_for(lifespan.wait_for_others(), 1)


async def test_a_guest_that_is_cancelled_does_not_break_the_shared_lifespan() -> None:
    lifespan = SharedLifespan(2)
    plan = Plan(lambda member: App(), "uvicorn", options={"log_level": "critical"}, lifespan=lifespan)
    guest: Any = SimpleNamespace(index=1, generation=0, kind="threads")
    serving = asyncio.create_task(serve_on(plan, guest))
    await asyncio.sleep(0)
    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await serving
    lifespan.begin({})
    await asyncio.wait_for(lifespan.wait_for_others(), 1)


async def test_the_limit_of_requests_is_reported() -> None:
    reached = asyncio.Event()
    app = App()
    config = on_uvicorn.make_config(app, {"log_level": "critical", "limit_max_requests": 1})
    server = on_uvicorn.UvicornServer(config, reached.set)
    await server.start()
    run = Running(app, server, await asyncio.get_running_loop().create_server(server.make_protocol, "127.0.0.1", 0))
    reader, writer = await run.get()
    await asyncio.wait_for(reached.wait(), 10)
    await run.stop(60)
    assert b"200 OK" in await rest(reader, writer)


async def test_a_startup_that_fails_is_one_exception() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "lifespan.startup.failed", "message": "no database"})

    server = on_uvicorn.UvicornServer(on_uvicorn.make_config(app, {"log_level": "critical"}))
    with pytest.raises(on_uvicorn.StartupFailed):
        await server.start()


async def test_a_startup_that_fails_under_an_older_uvicorn_is_the_same_exception(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Before 0.50, uvicorn notes the failure and returns; later it exits."""

    async def startup(server: Any, sockets: Any = None) -> None:
        await server.lifespan.startup()
        server.should_exit = server.lifespan.should_exit

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "lifespan.startup.failed", "message": "no database"})

    monkeypatch.setattr(uvicorn.Server, "startup", startup)
    server = on_uvicorn.UvicornServer(on_uvicorn.make_config(app, {"log_level": "critical"}))
    with pytest.raises(on_uvicorn.StartupFailed):
        await server.start()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("workers", "option --loops"),
        ("timeout_graceful_shutdown", "option --drain"),
        ("log_levl", r"no option 'log_levl' \(did you mean 'log_level'\?\)"),
    ],
)
def test_options_that_cannot_be_set_are_refused(name: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        on_uvicorn.check_options({name: 1})


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("log_level", "loud", r"uvicorn\.Config raises KeyError: 'loud'; check log_level"),
        ("http", "h9", "; check http"),
        ("timeout_keep_alive", "abc", "option 'timeout_keep_alive' must be a number, not 'abc'"),
        ("access_log", "maybe", "option 'access_log' must be true or false, not 'maybe'"),
    ],
)
def test_values_that_uvicorn_cannot_use_are_refused(name: str, value: object, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        on_uvicorn.check_options({name: value})


def test_values_of_other_types_that_uvicorn_can_use_are_accepted() -> None:
    on_uvicorn.check_options(
        {"timeout_keep_alive": 0.5, "ws_ping_interval": None, "log_level": 50, "use_colors": False}
    )


async def test_an_application_that_takes_any_arguments_is_not_taken_for_a_factory() -> None:
    """Decorators often return such a function, and uvicorn calls what it can call without arguments."""
    called: list[tuple[Any, ...]] = []

    async def application(*arguments: Any) -> None:
        called.append(arguments)

    config = on_uvicorn.make_config(application, {"lifespan": "off"})
    await config.loaded_app({"type": "lifespan"}, None, None)
    assert [len(each) for each in called] == [3]
