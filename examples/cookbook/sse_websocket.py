"""Server-sent events and WebSockets that end when the server shuts down.

Start it with `python sse_websocket.py 8000`.

uvicorn closes WebSockets itself at shutdown, but waits until each response is complete, and a stream of events never
is. So the streams watch an `asyncio.Event` that is set by the signal.
"""

import asyncio
import sys
from collections.abc import AsyncIterator
from types import FrameType

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket

stopping = asyncio.Event()


async def clock() -> AsyncIterator[str]:
    """An event each second, and a last one at shutdown, so that clients reconnect to another server."""
    while not stopping.is_set():
        yield f"data: {asyncio.get_running_loop().time():.0f}\n\n"
        try:
            async with asyncio.timeout(1):
                await stopping.wait()
        except TimeoutError:
            pass
    yield "event: bye\ndata: the server stops\n\n"


async def events(request: Request) -> StreamingResponse:
    """Starlette cancels the generator when the client disconnects."""
    return StreamingResponse(clock(), media_type="text/event-stream")


async def echo(websocket: WebSocket) -> None:
    """Echo messages until the client leaves; at shutdown uvicorn closes the connection with code 1012."""
    await websocket.accept()
    async for text in websocket.iter_text():
        await websocket.send_text(text)
    print("closed", flush=True)  # what has to be cleaned up comes here


app = Starlette(routes=[Route("/events", events), WebSocketRoute("/echo", echo)])


class Server(uvicorn.Server):
    """uvicorn's server, which also sets `stopping`."""

    async def serve(self, sockets: list[object] | None = None) -> None:
        """Remember the loop, for the handler."""
        self.loop = asyncio.get_running_loop()
        await super().serve(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Called in a signal handler, where only `call_soon_threadsafe` is allowed."""
        self.loop.call_soon_threadsafe(stopping.set)
        super().handle_exit(sig, frame)


if __name__ == "__main__":
    # A client that does not read cannot hold up the end for longer than `timeout_graceful_shutdown` seconds.
    config = uvicorn.Config(app, port=int(sys.argv[1]), loop="loopcore:new_event_loop", timeout_graceful_shutdown=10)
    Server(config).run()
