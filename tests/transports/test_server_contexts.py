"""The contextvars that accepted connections see."""

import asyncio
import contextvars
import sys
from typing import Any

import pytest

from tests.transports.recorder import Recorder
from tests.transports.test_server import Counter, connect, serving, until
from tests.transports.tls_support import client_context, server_context

Loop = asyncio.AbstractEventLoop


async def test_connections_are_made_in_copies_of_the_context_that_started_the_server() -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="nobody's")
    made: list[Any] = []
    found: list[str] = []

    def factory() -> Any:
        found.append(variable.get())
        variable.set("the last connection's")
        return Counter(made)

    variable.set("the server's")
    async with serving(factory) as server:
        variable.set("too late")
        for count in (1, 2):
            with await connect(server):
                await until(lambda count=count: len(made) == count)  # type: ignore[misc]
    assert found == ["the server's", "the server's"]


async def test_a_server_that_starts_later_has_the_context_that_python_says(loop: Loop) -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="nobody's")
    made: list[Any] = []
    found: list[str] = []

    def factory() -> Any:
        found.append(variable.get())
        return Counter(made)

    async def start(server: Any) -> None:
        variable.set("the starter's")
        await server.start_serving()

    variable.set("the maker's")
    async with serving(factory, start_serving=False) as server:
        await loop.create_task(start(server))
        with await connect(server):
            await until(lambda: bool(made))
    assert found == ["the maker's" if sys.version_info >= (3, 15) else "the starter's"]


@pytest.mark.parametrize("over_tls", [False, True], ids=["TCP", "TLS"])
async def test_a_task_that_resumes_reading_keeps_its_context_to_itself(
    loop: Loop, backend_name: str, over_tls: bool
) -> None:
    """gh-140947, issue 33."""
    if backend_name == "asyncio" and sys.version_info < (3, 15):
        pytest.skip("before Python 3.15 the connection goes on in the context of the task that resumes reading")
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="nobody's")
    protocol = Recorder()
    found: list[tuple[str, str]] = []

    async def resume() -> None:
        found.append(("task", variable.get()))
        variable.set("the task's")
        protocol.transport.resume_reading()

    def look() -> None:
        kind = protocol.kinds()[-1]
        found.append((kind, variable.get()))
        if kind == "data":
            protocol.transport.pause_reading()
            tasks.append(loop.create_task(resume()))

    tasks: list[asyncio.Task[None]] = []
    for kind in ("made", "data", "lost"):
        protocol.react[kind] = look
    variable.set("the server's")
    async with serving(lambda: protocol, ssl=server_context() if over_tls else None) as server:
        variable.set("too late")
        _, writer = await asyncio.open_connection(
            *server.sockets[0].getsockname(),
            ssl=client_context() if over_tls else None,
            server_hostname="localhost" if over_tls else None,
        )
        for part in (b"one", b"onetwo"):
            writer.write(part[-3:])
            await protocol.until(lambda part=part: protocol.received() == part)  # type: ignore[misc]
        writer.close()
        await writer.wait_closed()
        await protocol.seen("lost")
        await asyncio.gather(*tasks)
    assert {value for _, value in found} == {"the server's"}
    assert [kind for kind, _ in found] == ["made", "data", "task", "data", "task", "lost"]
