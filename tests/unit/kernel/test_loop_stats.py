"""Counters: each counts what its name says."""

import asyncio
import contextlib
import gc
import socket
import threading
from typing import Any

import pytest

import loopcore
from loopcore import hookimpl
from loopcore.kernel.scheduler import Scheduler
from loopcore.testing import ScriptedBackend, VirtualClock


@pytest.fixture
def reactor() -> Scheduler:
    clock = VirtualClock()
    return Scheduler(ScriptedBackend(clock), clock=clock)


def test_ticks_are_polls_and_polls_that_were_left_out(reactor: Scheduler) -> None:
    reactor.poll_skip_time = 1e9
    for _ in range(100):
        reactor.call_soon(int)
        reactor.tick()
    counted = reactor.counters()
    assert counted.ticks == counted.polls + counted.polls_skipped == 100
    assert 0 < counted.polls < 10


def test_callbacks_of_every_queue_count(reactor: Scheduler) -> None:
    for schedule in (reactor.call_soon, reactor.call_immediate, reactor.next_tick, reactor.queue_microtask):
        schedule(int)
    reactor.call_later(0, int)
    reactor.tick()
    reactor.call_soon(int).cancel()
    reactor.tick()
    counted = reactor.counters()
    assert (counted.callbacks, counted.timers_fired) == (6, 1)


def test_events_are_those_the_wait_reports(reactor: Scheduler) -> None:
    reactor.backend.script.append([(5, 1), (6, 1)])
    reactor.tick()
    assert reactor.counters().events == 2


def test_posts_of_other_threads_count_and_share_wakes(reactor: Scheduler) -> None:
    def post() -> None:
        for _ in range(10):
            reactor.call_soon_threadsafe(int)

    thread = threading.Thread(target=post)
    thread.start()
    thread.join()
    reactor.tick()
    counted = reactor.counters()
    assert (counted.threadsafe_posts, counted.threadsafe_wakes) == (10, 1)


def test_lengths_are_those_of_now(reactor: Scheduler) -> None:
    reactor.call_soon(int)
    reactor.call_later(1.0, int)
    cancelled = reactor.call_later(2.0, int)
    reactor._timers.next_deadline()  # one that is cancelled before the loop has looked at it leaves at once
    cancelled.cancel()
    counted = reactor.counters()
    assert (counted.ready, counted.timers, counted.timers_cancelled) == (1, 2, 1)


async def fail() -> None:
    raise ValueError


async def outcomes(loop: Any) -> None:
    finished = loop.create_task(asyncio.sleep(0))
    failed = loop.create_task(fail())
    cancelled = loop.create_task(asyncio.sleep(10))
    await asyncio.sleep(0)
    cancelled.cancel()
    await asyncio.wait([finished, failed, cancelled])
    assert isinstance(failed.exception(), ValueError)


def test_tasks_are_counted_by_outcome() -> None:
    loop = loopcore.new_event_loop()
    loop.run_until_complete(outcomes(loop))
    counted = loop.counters()
    loop.close()
    assert (counted.tasks_created, counted.tasks_finished) == (4, 2)  # `outcomes` itself is one
    assert (counted.tasks_failed, counted.tasks_cancelled, counted.tasks_live) == (1, 1, 0)
    assert counted.task_steps >= 8


def test_a_task_that_is_garbage_before_its_end_is_no_longer_live() -> None:
    loop = loopcore.new_event_loop()
    loop.set_exception_handler(lambda *_: None)

    async def drop() -> None:
        loop.create_task(wait_for_nobody(loop))
        await asyncio.sleep(0)

    loop.run_until_complete(drop())
    gc.collect()
    counted = loop.counters()
    loop.close()
    assert (counted.tasks_created, counted.tasks_destroyed, counted.tasks_live) == (2, 1, 0)


async def wait_for_nobody(loop: Any) -> None:
    await loop.create_future()


def test_connections_are_counted_as_accepted_or_refused() -> None:
    answers = [True, False, None]

    class Plugin:
        @hookimpl
        def loopcore_admit_connection(self, loop: Any, server: Any, sock: socket.socket) -> bool | None:
            assert sock.getsockname() == server.sockets[0].getsockname()
            return answers.pop(0)

    async def main(loop: Any) -> list[bytes | type[Exception]]:
        server = await loop.create_server(Greeting, "127.0.0.1", 0)
        address = server.sockets[0].getsockname()
        got = [await greeting(*address) for _ in range(3)]
        server.close()
        return got

    loop = loopcore.new_event_loop(plugins=[Plugin()])
    got = loop.run_until_complete(main(loop))
    counted = loop.counters()
    loop.close()
    assert got == [b"hello", ConnectionResetError, b"hello"]
    assert (counted.connections_accepted, counted.connections_refused) == (2, 1)


class Greeting(asyncio.Protocol):
    def connection_made(self, transport: Any) -> None:
        transport.write(b"hello")
        transport.close()


async def greeting(host: str, port: int) -> bytes | type[Exception]:
    try:
        reader, writer = await asyncio.open_connection(host, port)
        with contextlib.closing(writer):
            return await reader.read()
    except ConnectionResetError:
        return ConnectionResetError
