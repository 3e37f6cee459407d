"""Draining: what applications and clients see when the server of an ASGI application ends."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from loopcore.errors import UsageError
from loopcore.serving import Drain, draining, is_draining
from loopcore.serving import drain as module

Call = Callable[[Any, Any, Any], Awaitable[None]]
START = {"type": "http.response.start", "status": 200, "headers": []}
EVENTS = {"type": "http.response.start", "status": 200, "headers": [(b"Content-Type", b"text/event-stream; charset=x")]}


class Client:
    """The server's side of one exchange: what comes from the client, and what goes to it."""

    def __init__(self, kind: str = "http") -> None:
        self.scope = {"type": kind, "path": "/"}
        self.sent: list[Any] = []
        self._received: asyncio.Queue[Any] = asyncio.Queue()
        if kind == "websocket":
            self._received.put_nowait({"type": "websocket.connect"})

    async def receive(self) -> Any:
        return await self._received.get()

    def leave(self) -> None:
        self._received.put_nowait({"type": f"{self.scope['type']}.disconnect"})

    async def send(self, message: Any) -> None:
        self.sent.append(message)

    @property
    def types(self) -> list[str]:
        return [message["type"] for message in self.sent]

    def call(self, drain: Drain) -> "asyncio.Task[None]":
        async def called() -> None:
            await drain(self.scope, self.receive, self.send)

        return asyncio.get_running_loop().create_task(called())


@pytest.fixture
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cancel at once an application that ignores the disconnect."""
    monkeypatch.setattr(module, "PATIENCE", 0.0)


async def begun(event: asyncio.Event) -> None:
    async with asyncio.timeout(10):
        await event.wait()


async def test_an_application_that_ends_before_the_deadline_is_left_alone() -> None:
    started = asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send(EVENTS)
        started.set()
        await draining()
        assert is_draining()
        await send({"type": "http.response.body", "body": b"data: bye\n\n", "more_body": False})

    client, drain = Client(), Drain(app)
    task = client.call(drain)
    await begun(started)
    assert drain.open() == {"event streams": 1}
    drain.begin()
    assert await drain.wait(10)
    assert not await drain.end()
    await task
    assert client.sent[-1]["body"] == b"data: bye\n\n"


async def test_an_event_stream_is_complete_at_the_deadline() -> None:
    started = asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send(EVENTS)
        started.set()
        await asyncio.Event().wait()

    client, drain = Client(), Drain(app)
    task = client.call(drain)
    await begun(started)
    drain.begin()
    assert not await drain.wait(0)
    assert await drain.end() == {"event streams": 1}
    await task
    assert client.sent[-1] == {"type": "http.response.body", "body": b"", "more_body": False}
    assert not task.cancelled()
    assert not task.cancelling()


async def test_another_response_stays_incomplete_at_the_deadline() -> None:
    started = asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send(START)
        await send({"type": "http.response.body", "body": b"half", "more_body": True})
        started.set()
        await asyncio.Event().wait()

    client, drain = Client(), Drain(app)
    task = client.call(drain)
    await begun(started)
    drain.begin()
    assert await drain.end() == {"requests": 1}
    await task
    assert client.sent[-1]["body"] == b"half"  # so the server breaks the connection


async def test_a_request_without_a_response_gets_503_at_the_deadline() -> None:
    started = asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        started.set()
        await asyncio.Event().wait()

    client, drain = Client(), Drain(app)
    task = client.call(drain)
    await begun(started)
    drain.begin()
    assert await drain.end() == {"requests": 1}
    await task
    assert client.sent[0]["status"] == 503
    assert (b"connection", b"close") in client.sent[0]["headers"]
    assert client.types == ["http.response.start", "http.response.body"]


async def test_a_websocket_that_waits_for_a_message_gets_a_disconnect_then_its_client_1012() -> None:
    received = []
    started = asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        started.set()
        received.append(await receive())
        received.append(await receive())  # a server repeats it, too

    client, drain = Client("websocket"), Drain(app)
    task = client.call(drain)
    await begun(started)
    drain.begin()
    assert await drain.end() == {"WebSockets": 1}
    await task
    assert [(message["type"], message["code"]) for message in received] == [("websocket.disconnect", 1012)] * 2
    assert client.sent[-1] == {"type": "websocket.close", "code": 1012, "reason": "service restart"}


async def test_a_websocket_that_only_sends_is_cancelled_and_its_client_gets_1012() -> None:
    started = asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        started.set()
        await asyncio.Event().wait()

    client, drain = Client("websocket"), Drain(app)
    task = client.call(drain)
    await begun(started)
    drain.begin()
    await drain.end()
    await task
    assert client.sent[-1]["code"] == 1012


async def test_a_disconnect_reaches_a_task_that_the_application_started_to_receive() -> None:
    started = asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send(EVENTS)
        async with asyncio.TaskGroup() as group:
            listener = group.create_task(receive())
            started.set()
            assert await listener == {"type": "http.disconnect"}

    client, drain = Client(), Drain(app)
    task = client.call(drain)
    await begun(started)
    await asyncio.sleep(0)
    drain.begin()
    assert await drain.end() == {"event streams": 1}
    await task
    assert client.sent[-1]["more_body"] is False


@pytest.mark.usefixtures("patience")
async def test_an_application_that_ignores_the_disconnect_is_cancelled() -> None:
    started = asyncio.Event()
    ends = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        started.set()
        try:
            while True:
                await receive()
                await asyncio.sleep(0)
        finally:
            ends.append("cancelled")

    client, drain = Client("websocket"), Drain(app)
    task = client.call(drain)
    await begun(started)
    drain.begin()
    await drain.end()
    await task
    assert ends == ["cancelled"]
    assert client.sent[-1]["code"] == 1012
    assert not drain.open()


@pytest.mark.usefixtures("patience")
async def test_an_application_that_ignores_the_cancellation_is_reported_as_open() -> None:
    started, release = asyncio.Event(), asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        started.set()
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                pass

    client, drain = Client(), Drain(app)
    task = client.call(drain)
    await begun(started)
    drain.begin()
    await drain.end()
    assert drain.open() == {"requests": 1}
    release.set()
    await task
    assert client.sent[0]["status"] == 503
    assert not drain.open()


async def test_a_client_that_leaves_meanwhile_is_sent_nothing() -> None:
    started = asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        started.set()
        await receive()

    client, drain = Client("websocket"), Drain(app)
    task = client.call(drain)
    await begun(started)
    client.leave()
    drain.begin()
    assert await drain.wait(10)
    await task
    assert client.types == ["websocket.accept"]


async def test_the_cancellation_by_the_server_passes_through() -> None:
    started = asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        started.set()
        await receive()

    client, drain = Client(), Drain(app)
    task = client.call(drain)
    await begun(started)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not client.sent
    assert not drain.open()


@pytest.mark.parametrize("receives", [False, True])
async def test_the_cancellation_by_the_server_passes_through_at_the_deadline(receives: bool) -> None:
    started = asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        started.set()
        await (receive() if receives else asyncio.Event().wait())

    client, drain = Client(), Drain(app)
    task = client.call(drain)
    await begun(started)
    drain.begin()
    ending = asyncio.create_task(drain.end())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await ending
    assert not drain.open()


class DatabaseDisconnected(Exception):
    """An application's own error, with a name like that of frameworks."""


@pytest.mark.parametrize("error", [LookupError, DatabaseDisconnected, PermissionError])
async def test_an_exception_of_the_application_passes_through_at_the_deadline(error: type[Exception]) -> None:
    started = asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        started.set()
        await receive()
        raise error("in its cleanup")

    client, drain = Client(), Drain(app)
    task = client.call(drain)
    await begun(started)
    drain.begin()
    await drain.end()
    with pytest.raises(error):
        await task
    assert client.sent[0]["status"] == 503


@pytest.mark.parametrize(
    "error",
    [ConnectionResetError, BrokenPipeError, type("WebSocketDisconnect", (Exception,), {"__module__": "starlette.x"})],
)
async def test_a_disconnect_error_at_the_deadline_is_no_error(error: type[Exception]) -> None:
    started = asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        started.set()
        if (await receive())["type"] == "websocket.disconnect":
            raise error

    client, drain = Client("websocket"), Drain(app)
    task = client.call(drain)
    await begun(started)
    drain.begin()
    await drain.end()
    await task
    assert client.types == ["websocket.close"]  # before it was accepted: the server answers 403


async def test_the_lifespan_and_its_tasks_learn_of_the_drain() -> None:
    learned = []

    async def watch() -> None:
        await draining()
        learned.append(is_draining())

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await asyncio.get_running_loop().create_task(watch())

    client, drain = Client("lifespan"), Drain(app)
    task = client.call(drain)
    assert drain.open() == {}
    drain.begin()
    await task
    assert learned == [True]


async def test_elsewhere_there_is_nothing_that_drains() -> None:
    with pytest.raises(UsageError, match="loopcore serve"):
        await draining()
    with pytest.raises(UsageError, match="loopcore serve"):
        is_draining()


async def test_a_hundred_exchanges_end_together() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        await receive()

    drain = Drain(app)
    clients = [Client("websocket") for _ in range(100)]
    tasks = [client.call(drain) for client in clients]
    while any(not client.sent for client in clients):
        await asyncio.sleep(0)
    drain.begin()
    assert await drain.end() == {"WebSockets": 100}
    await asyncio.gather(*tasks)
    assert [client.sent[-1]["code"] for client in clients] == [1012] * 100
