"""Faults that a review found, each with the smallest program that showed it."""

import asyncio
import gc
import socket
import threading
from typing import Any

import pytest

import loopcore
from loopcore.discovery import register_backend, unregister_backend
from loopcore.errors import UsageError
from loopcore.kernel.handle import Handle
from loopcore.kernel.inbox import Inbox
from loopcore.kernel.ready import ReadyQueue
from loopcore.kernel.runnable import Runnable
from loopcore_backends.poll_ import PollBackend

pytestmark = pytest.mark.loopcore_only


class Pushing(Runnable):
    """Pushes something else while it is destroyed, as a task does whose coroutine is closed."""

    def __init__(self, queue: ReadyQueue) -> None:
        self.queue = queue

    def __del__(self) -> None:
        self.queue.push(Runnable())


def test_a_large_ring_may_be_pushed_to_while_it_is_cleared() -> None:
    queue = ReadyQueue()
    for _ in range(200):
        queue.push(Pushing(queue))
    queue.clear()
    assert len(queue) == 0
    queue.push(Runnable())
    assert len(queue) == 1


def test_a_cancelled_gather_leaves_its_child_the_exception(loop: Any) -> None:
    async def stubborn() -> None:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            raise ValueError("cleanup failed") from None

    async def main() -> None:
        child = asyncio.ensure_future(stubborn())

        async def parent() -> None:
            await asyncio.gather(child, return_exceptions=True)

        task = asyncio.ensure_future(parent())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        assert isinstance(child.exception(), ValueError)

    loop.run_until_complete(main())


def test_one_take_of_the_inbox_ends_although_others_go_on_posting(loop: Any) -> None:
    inbox = Inbox(lambda: None)
    for _ in range(3):
        inbox.post(Handle(print, (), loop), running=False)
    assert len(inbox.take()) == 3
    stopped = threading.Event()

    def flood() -> None:
        while not stopped.is_set():
            loop.call_soon_threadsafe(int)

    flooding = threading.Thread(target=flood)
    flooding.start()
    try:
        loop.call_later(0.01, loop.stop)
        loop.run_forever()
    finally:
        stopped.set()
        flooding.join()


def test_nan_and_what_is_no_number_are_refused_as_deadlines(loop: Any) -> None:
    with pytest.raises(ValueError, match="NaN"):
        loop.call_later(float("nan"), print)
    with pytest.raises(TypeError):
        loop.call_at("soon", print)
    assert loop.timers.next_deadline() == float("inf")


def test_a_phase_callback_must_be_callable(loop: Any) -> None:
    with pytest.raises(TypeError, match="callable"):
        loop.add_phase_callback("check", 5)


@pytest.mark.parametrize("plugin", [None, dict, 5])
def test_what_has_no_hooks_is_no_plugin(loop: Any, plugin: object) -> None:
    with pytest.raises(UsageError, match="plugin"):
        loop.probes.register(plugin)


def test_a_cold_hook_cannot_be_wrapped_either(loop: Any) -> None:
    class Wrapping:
        @loopcore.hookimpl(wrapper=True)
        def loopcore_exception(self) -> Any:
            return (yield)

    with pytest.raises(UsageError, match="wrapper"):
        loop.probes.register(Wrapping())


def test_debug_mode_notices_a_future_that_is_set_from_another_thread(loop: Any) -> None:
    loop.set_debug(True)
    raised: list[BaseException] = []

    async def main() -> None:
        future = loop.create_future()
        waiting = loop.create_task(asyncio.wait_for(future, 10))
        await asyncio.sleep(0)
        await asyncio.sleep(0)

        def meddle() -> None:
            try:
                future.set_result(1)
            except RuntimeError as exc:
                raised.append(exc)

        thread = threading.Thread(target=meddle)
        thread.start()
        await asyncio.to_thread(thread.join)
        waiting.cancel()
        await asyncio.wait([waiting])

    loop.run_until_complete(main())
    loop.run_until_complete(loop.shutdown_default_executor())
    assert "Non-thread-safe" in str(raised[0])


def test_a_function_can_be_registered_as_a_backend() -> None:
    register_backend("made", lambda: PollBackend())
    try:
        loop = loopcore.new_event_loop("made")
        assert loop.run_until_complete(asyncio.sleep(0, 7)) == 7
        loop.close()
    finally:
        unregister_backend("made")


def let_go(held: list[Any]) -> None:
    held.clear()
    gc.collect()


def test_what_was_written_before_the_loop_is_closed_is_sent(loop: Any) -> None:
    ours, peers = socket.socketpair()
    ours.setblocking(False)

    async def connect() -> Any:
        return await loop.connect_accepted_socket(asyncio.Protocol, ours)

    held = [loop.run_until_complete(connect())[0]]
    held[0].write(b"goodbye")
    loop.close()
    with peers:
        assert peers.recv(100) == b"goodbye"
    with pytest.warns(ResourceWarning, match="unclosed transport"):  # as with asyncio: nobody closed it
        let_go(held)


def test_bytes_that_lie_about_their_length_are_sent_as_they_are(loop: Any) -> None:
    class Short(bytes):
        def __len__(self) -> int:
            return 1

    ours, peers = socket.socketpair()
    ours.setblocking(False)

    async def main() -> None:
        transport, _ = await loop.connect_accepted_socket(asyncio.Protocol, ours)
        transport.writelines([Short(b"abc"), Short(b"def")])
        transport.close()
        await asyncio.sleep(0)

    loop.run_until_complete(main())
    with peers:
        assert peers.recv(100) == b"abcdef"
