"""The types of loopcore's public names. `mypy` checks this module, pytest runs it."""

import asyncio
import socket
import ssl
import sys
from typing import assert_type

import pytest

import loopcore
from loopcore import CompletionBackend, ReadinessBackend
from loopcore.hooks.types import Loop, Meter, Plugins


async def three() -> int:
    await asyncio.sleep(0)
    return 3


class Echo(asyncio.Protocol):
    pass


async def main(loop: loopcore.EventLoop) -> int:
    task = loop.create_task(three())
    assert_type(task, asyncio.Task[int])
    assert isinstance(task, asyncio.Task)
    same: loopcore.Task[int] = task
    future: loopcore.Future[str] = loop.create_future()
    assert isinstance(future, asyncio.Future)
    handle: loopcore.Handle = loop.call_soon(future.set_result, "done")
    assert_type(handle, asyncio.Handle)
    assert isinstance(handle, asyncio.Handle)
    assert_type(await future, str)
    timer: loopcore.TimerHandle = loop.call_later(60, print, "never")
    assert isinstance(timer, asyncio.TimerHandle)
    timer.cancel()
    server = await loop.create_server(Echo, "127.0.0.1", 0)
    assert_type(server, asyncio.Server)
    async with server:
        opened = await loop.create_connection(Echo, *server.sockets[0].getsockname())
        assert_type(opened, tuple[asyncio.Transport, Echo])
        opened[0].close()
    assert_type(await loop.run_in_executor(None, len, "four"), int)
    return await same


async def look_up(loop: loopcore.EventLoop) -> tuple[str, int] | tuple[str, int, int, int]:
    infos = await loop.getaddrinfo("127.0.0.1", 80)
    assert_type(infos[0][0], socket.AddressFamily)
    return infos[0][4]


async def refused_by_a_type_checker(loop: loopcore.EventLoop, transport: asyncio.Transport) -> None:
    loop.set_task_factory(three)  # type: ignore[arg-type]
    loop.add_phase_callback("poll", print)  # type: ignore[arg-type]
    loop.set_default_executor(3)  # type: ignore[arg-type]
    await loop.sendfile(transport, "a file")  # type: ignore[arg-type]
    await loop.start_tls(3, Echo(), ssl.create_default_context())  # type: ignore[arg-type]


def test_a_look_up_gives_addresses_of_known_types() -> None:
    loop = loopcore.new_event_loop()
    loop.set_task_factory(lambda loop, coro: asyncio.Task(coro, loop=loop))
    try:
        assert loop.run_until_complete(look_up(loop)) == ("127.0.0.1", 80)
    finally:
        loop.close()


def test_the_methods_of_a_loop_return_what_their_types_say() -> None:
    loop = loopcore.new_event_loop()
    try:
        assert_type(loop.backend, ReadinessBackend | CompletionBackend)
        result = loop.run_until_complete(main(loop))
        assert_type(result, int)
        assert result == 3
    finally:
        loop.close()


def test_the_running_loop_is_known_as_loopcores() -> None:
    async def main() -> int:
        assert_type(loopcore.get_running_loop(), loopcore.EventLoop)
        return loopcore.get_running_loop().counters().ticks

    assert loopcore.run(main()) > 0


def test_a_loop_fits_where_asyncios_is_annotated() -> None:
    def is_closed(loop: asyncio.AbstractEventLoop) -> bool:
        return loop.is_closed()

    with asyncio.Runner(loop_factory=loopcore.new_event_loop) as runner:
        assert_type(runner.run(three()), int)
        assert not is_closed(runner.get_loop())


@pytest.mark.skipif(sys.version_info >= (3, 16), reason="no policies from Python 3.16 on")
def test_the_policy_is_a_class_whose_loops_are_known() -> None:
    def policy() -> loopcore.EventLoopPolicy:
        return loopcore.EventLoopPolicy()

    loop = policy().new_event_loop()
    try:
        assert_type(loop, loopcore.EventLoop)
    finally:
        loop.close()


def test_installed_extensions_have_a_public_type() -> None:
    rows: list[loopcore.Extension] = loopcore.list_backends()
    assert_type(rows[0].available, bool)
    assert all(isinstance(row, loopcore.Extension) for row in [*rows, *loopcore.list_plugins()])


def windows(given: Loop) -> list[float]:
    plugins: Plugins = given.probes
    assert_type(plugins.plugins(), list[tuple[str, object]])
    with given.meter(1.0) as meter:
        assert_type(meter, Meter)
        return [meter.window]


def test_what_plugins_are_given_has_types_that_they_can_import() -> None:
    loop = loopcore.new_event_loop()
    try:
        assert windows(loop) == [1.0]
    finally:
        loop.close()
