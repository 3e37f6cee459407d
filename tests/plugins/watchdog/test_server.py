"""A web application under uvicorn: a handler that blocks is named while its client waits."""

import asyncio
import socket
import time
from typing import Any

import pytest

import loopcore
from loopcore_plugins.watchdog import Watchdog
from tests.plugins.watchdog.finder import PATIENCE, Finder

uvicorn = pytest.importorskip("uvicorn")

pytestmark = pytest.mark.loopcore_only


def test_a_handler_that_sleeps_is_named_while_its_client_waits(backend_name: str) -> None:
    finder = Finder("blocked")

    async def application(scope: Any, receive: Any, send: Any) -> None:
        while not finder.found.is_set():  # one round, but on a machine that gives the watchdog no time
            time.sleep(0.5)
            await asyncio.sleep(0)  # what goes on is one stall, and keeps the cause that it began with
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})

    config = uvicorn.Config(application, log_level="error", lifespan="off")
    server = uvicorn.Server(config)

    async def ask(port: int) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n")
        answer = await reader.read()
        writer.close()
        await writer.wait_closed()
        return answer

    async def program() -> bytes:
        with socket.create_server(("127.0.0.1", 0)) as listening:
            serving = asyncio.create_task(server.serve([listening]), name="server")
            answer = await ask(listening.getsockname()[1])
            server.should_exit = True
            await serving
        return answer

    answer = loopcore.run(program(), backend=backend_name, plugins=[Watchdog(), finder])
    assert answer.endswith(b"ok")
    assert finder.over.wait(PATIENCE)
    stall = finder.begun[0]
    assert stall.place == stall.call
    assert stall.place is not None
    assert (stall.place.file, stall.place.function) == (__file__, application.__qualname__)
    assert stall.task is not None
    assert "RequestResponseCycle.run_asgi" in stall.task.coroutine
