"""Draining: how open requests and WebSockets of an ASGI application end when its server stops.

    listeners close ----> the application learns it ----> deadline ----> what is open is ended ----> lifespan shutdown
                          idle connections close

A server that waits for its connections never ends while an event stream or a WebSocket is open, and one that closes
them at once breaks responses that were about to end. Hence a deadline. Until then open exchanges continue, and an
application that watches `draining` can say goodbye and end them. At the deadline each remaining exchange gets:

1. a disconnect, if the application waits in `receive`, as if the client had left; it is cancelled otherwise;
2. after a second, cancellation, if it still runs.

When the application has returned, the client gets the end that its protocol has: a WebSocket is closed with 1012
(service restart), an event stream is complete, a request without a response is answered with 503. Any other response
stays incomplete, and its connection closes: half a download that ends properly would look like a whole one.

`Drain` is ASGI middleware, so it works the same under every server. Thread: the loop's, except `is_draining`.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from contextvars import ContextVar
from typing import Any, Final, NoReturn

from loopcore.errors import UsageError
from loopcore.log import own_logger

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Message, Receive, Send], Awaitable[None]]

SERVICE_RESTART: Final = 1012
"""The close code of WebSockets that the deadline ends (the IANA registry of RFC 6455)."""
PATIENCE: Final = 1.0
"""Seconds that an application has to return after a disconnect, and again after a cancellation."""

DISCONNECTS: Final = frozenset(
    {
        "blacksheep.WebSocketDisconnectError",
        "django.RequestAborted",
        "falcon.WebSocketDisconnected",
        "litestar.WebSocketDisconnect",
        "starlette.ClientDisconnect",
        "starlette.WebSocketDisconnect",
        "starlette.WebSocketDisconnected",
        "uvicorn.ClientDisconnected",
    }
)
"""The exceptions by which frameworks report that the client has left: package and class."""

_drain: ContextVar["Drain"] = ContextVar("loopcore.serving.drain")


async def draining() -> None:
    """Wait until the server of this application drains: it accepts nothing more, and ends at a deadline.

    For code of an ASGI application: its requests, WebSockets and lifespan, and the tasks that they start.
    Raises UsageError elsewhere.
    """
    drain = _drain.get(None)
    if drain is None:
        _refuse()
    await drain.begun.wait()


def is_draining() -> bool:
    """Return whether the server of this application drains; see `draining`. Thread: any that has the context."""
    drain = _drain.get(None)
    if drain is None:
        _refuse()
    return drain.begun.is_set()


def _refuse() -> NoReturn:
    raise UsageError(
        "this code was not started by an application that loopcore serves; "
        "start the server with `loopcore serve`, and call this in a request or in the lifespan"
    )


class Drain:
    """An ASGI application around `app`, for one loop, that knows which exchanges are open and can end them."""

    def __init__(self, app: Application) -> None:
        self.app = app
        self.begun = asyncio.Event()
        self._open: set[_Exchange] = set()
        self._changed = asyncio.Event()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Call the application; end its response properly if the deadline has ended the call."""
        _drain.set(self)
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        exchange = _Exchange(scope, receive, send)
        self._open.add(exchange)
        try:
            await exchange.run(self.app)
        finally:
            self._open.remove(exchange)
            if self.begun.is_set():
                self._changed.set()

    def open(self) -> Counter[str]:
        """Return how many exchanges are open: "requests", "event streams", "WebSockets"."""
        return Counter(exchange.kind for exchange in self._open)

    def begin(self) -> None:
        """Tell the application, through `draining`, that it is to end what is open. Idempotent."""
        self.begun.set()

    async def wait(self, timeout: float) -> bool:
        """Return True when nothing is open, or False after `timeout` seconds. Call `begin` first."""
        deadline = asyncio.get_running_loop().time() + timeout
        while self._open:
            self._changed.clear()
            try:
                async with asyncio.timeout_at(deadline):
                    await self._changed.wait()
            except TimeoutError:
                return not self._open
        return True

    async def end(self) -> Counter[str]:
        """End what is open, and return how many exchanges that were. Takes at most twice `PATIENCE`.

        Exchanges whose application ignores the cancellation stay open; `open` returns them.
        """
        ended = self.open()
        for exchange in self._open:
            exchange.disconnect()
        if not await self.wait(PATIENCE):
            for exchange in self._open:
                exchange.cancel()
            await self.wait(PATIENCE)
        return ended


class _Exchange:
    """A request with its response, or a WebSocket, while the application is called for it."""

    __slots__ = (
        "_cancellations",
        "_is_complete",
        "_is_ending",
        "_is_event_stream",
        "_is_interrupted",
        "_is_started",
        "_receive",
        "_receiver",
        "_send",
        "_task",
        "scope",
    )

    def __init__(self, scope: Message, receive: Receive, send: Send) -> None:
        self.scope = scope
        self._receive = receive
        self._send = send
        self._task: asyncio.Task[Any] | None = asyncio.current_task()
        self._receiver: asyncio.Task[Any] | None = None
        """The task that waits in `receive`: the application may have started one for it."""
        self._is_interrupted = False
        self._is_ending = False
        self._cancellations = 0
        self._is_started = self._is_complete = self._is_event_stream = False

    @property
    def kind(self) -> str:
        """What it is, in the plural."""
        if self.scope["type"] == "websocket":
            return "WebSockets"
        return "event streams" if self._is_event_stream else "requests"

    async def run(self, app: Application) -> None:
        """Call `app`. Its exceptions pass through, except what `disconnect` and `cancel` have caused."""
        try:
            await app(self.scope, self.receive, self.send)
        except asyncio.CancelledError:
            if not self._cancellations or self._task is None or self._task.cancelling() > self._cancellations:
                raise  # another cancellation than ours
        except Exception as error:
            if not self._is_ending or not _means_disconnect(error):
                raise
            own_logger.debug("%s ended at the deadline with %r", self.scope.get("path"), error)
        finally:
            self._forget_cancellations()
            if self._is_ending and not self._is_complete:
                await self._finish()

    async def receive(self) -> Message:
        """The server's `receive`, which `disconnect` can interrupt."""
        if self._is_ending:
            return self._disconnect_message()
        task = self._receiver = asyncio.current_task()
        try:
            message = await self._receive()
        except asyncio.CancelledError:
            if not self._is_interrupted or task is None:
                raise
            self._is_interrupted = False
            if task.uncancel() > 0:
                raise  # the server has cancelled it, too
            return self._disconnect_message()
        finally:
            self._receiver = None
        if message["type"] in ("http.disconnect", "websocket.disconnect"):
            self._is_complete = True
        return message

    async def send(self, message: Message) -> None:
        """The server's `send`; notes how far the response is."""
        await self._send(message)
        kind = message["type"]
        if kind == "http.response.start":
            self._is_started = True
            self._is_event_stream = _is_event_stream(message.get("headers", ()))
        elif kind == "http.response.body":
            self._is_complete = not message.get("more_body", False)
        elif kind == "websocket.accept":
            self._is_started = True
        elif kind == "websocket.close" or (
            kind == "websocket.http.response.body" and not message.get("more_body", False)
        ):
            self._is_complete = True

    def disconnect(self) -> None:
        """Make the application's `receive` return a disconnect; cancel an application that does not wait there."""
        self._is_ending = True
        if self._receiver is None:
            self.cancel()
        else:
            self._is_interrupted = True
            self._receiver.cancel()

    def cancel(self) -> None:
        """Cancel the application."""
        if self._task is not None and self._task.cancel():
            self._cancellations += 1

    def _disconnect_message(self) -> Message:
        if self.scope["type"] == "websocket":
            return {"type": "websocket.disconnect", "code": SERVICE_RESTART, "reason": "service restart"}
        return {"type": "http.disconnect"}

    def _forget_cancellations(self) -> None:
        if self._task is not None:
            for _ in range(self._cancellations):
                self._task.uncancel()
        self._cancellations = 0

    async def _finish(self) -> None:
        """Send the end of a response that the application has left incomplete, where there is a proper one."""
        try:
            if self.scope["type"] == "websocket":
                await self._send({"type": "websocket.close", "code": SERVICE_RESTART, "reason": "service restart"})
            elif not self._is_started:
                headers = [(b"content-length", b"0"), (b"retry-after", b"1"), (b"connection", b"close")]
                await self._send({"type": "http.response.start", "status": 503, "headers": headers})
                await self._send({"type": "http.response.body"})
            elif self._is_event_stream:
                await self._send({"type": "http.response.body", "body": b"", "more_body": False})
        except (OSError, RuntimeError) as error:  # the client has left, and servers have either error for that
            own_logger.debug("the end of %s could not be sent: %s", self.scope.get("path"), error)
        except asyncio.CancelledError:
            if not self._cancellations:
                raise
            self._forget_cancellations()  # the client does not read


def _means_disconnect(error: Exception) -> bool:
    """Return whether the client has left: the system says so, or a framework, which is not imported to find out."""
    if isinstance(error, (ConnectionResetError, BrokenPipeError)):
        return True
    names = {f"{each.__module__.partition('.')[0]}.{each.__name__}" for each in type(error).__mro__}
    return not names.isdisjoint(DISCONNECTS)


def _is_event_stream(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    return any(
        bytes(name).lower() == b"content-type" and bytes(value).lower().startswith(b"text/event-stream")
        for name, value in headers
    )
