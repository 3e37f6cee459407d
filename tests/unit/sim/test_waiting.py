"""Waits and their cycles: programs that stand still, on asyncio's tasks and on loopcore's."""

import asyncio
import contextlib
import socket
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any

import pytest

import loopcore
from loopcore.sim.waiting import cycle_of, explain_waits, find_waits
from loopcore.sync import Mutex

Program = Coroutine[Any, Any, object]


@pytest.fixture(params=[asyncio.new_event_loop, loopcore.new_event_loop], ids=["asyncio", "loopcore"])
def loop(request: pytest.FixtureRequest) -> Iterator[asyncio.AbstractEventLoop]:
    loop = request.param()
    asyncio.set_event_loop(None)
    yield loop
    loop.close()


def stalled(loop: asyncio.AbstractEventLoop, start: Callable[[], dict[str, Program]]) -> str:
    """Run the programs until they wait, and return the explanation without the numbers of lines."""

    async def main() -> str:
        tasks = [asyncio.create_task(each, name=name) for name, each in start().items()]
        for _ in range(10):
            await asyncio.sleep(0)
        waits = find_waits(tasks)
        assert all(wait.place.startswith("test_waiting.py:") for wait in waits)
        text = explain_waits(tasks)
        for wait in waits:
            text = text.replace(f" ({wait.place})", "")
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return text

    return loop.run_until_complete(main())


def test_two_tasks_that_take_two_locks_in_another_order(loop: asyncio.AbstractEventLoop):
    def start() -> dict[str, Program]:
        first, second = asyncio.Lock(), asyncio.Lock()

        async def take(outer: asyncio.Lock, inner: asyncio.Lock) -> None:
            async with outer:
                await asyncio.sleep(0)
                async with inner:
                    pass

        return {"A": take(first, second), "B": take(second, first)}

    assert stalled(loop, start) == (
        "A waits for the lock `inner`, which B holds; B waits for the lock `inner`, which A holds"
    )


def test_a_lock_and_a_queue(loop: asyncio.AbstractEventLoop):
    class Chat:
        def __init__(self) -> None:
            self.lock = asyncio.Lock()
            self.queues: dict[str, asyncio.Queue[int]] = {"A": asyncio.Queue()}

        async def receive(self) -> None:
            async with self.lock:
                await self.queues["A"].get()

        async def send(self) -> None:
            await asyncio.sleep(0)
            async with self.lock:
                await self.queues["A"].put(1)

        async def receive_too(self) -> None:
            await self.queues["A"].get()

    def start() -> dict[str, Program]:
        chat = Chat()
        return {"B": chat.receive(), "A": chat.send(), "C": chat.receive_too()}

    assert stalled(loop, start) == (
        "A waits for the lock `self.lock`, which B holds; "
        "B waits for an item in the queue `self.queues['A']`, which A uses\n"
        "C waits for an item in the queue `self.queues['A']`, which A uses"
    )


def test_a_task_that_awaits_the_task_that_awaits_it(loop: asyncio.AbstractEventLoop):
    def start() -> dict[str, Program]:
        answer: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        asker: list[asyncio.Task[Any]] = []

        async def ask() -> int:
            asker.append(asyncio.current_task())  # type: ignore[arg-type]
            return await answer

        async def reply() -> None:
            await asyncio.sleep(0)
            await asker[0]
            answer.set_result(1)

        return {"A": ask(), "B": reply()}

    assert stalled(loop, start) == "A waits for the future `answer`, which B uses; B waits for the task A"


def test_a_queue_that_nobody_fills(loop: asyncio.AbstractEventLoop):
    def start() -> dict[str, Program]:
        queue: asyncio.Queue[int] = asyncio.Queue()

        async def consume() -> None:
            await queue.get()

        return {"A": consume(), "B": consume(), "full": fill()}

    async def fill() -> None:
        full: asyncio.Queue[int] = asyncio.Queue(1)
        while True:
            await full.put(1)

    text = stalled(loop, start)
    assert text == (
        "A waits for an item in the queue `queue`, which no other task is seen to use\n"
        "B waits for an item in the queue `queue`, which no other task is seen to use\n"
        "full waits for space in the queue `full`, which no other task is seen to use"
    )


def test_a_lock_taken_without_a_block_has_no_known_holder(loop: asyncio.AbstractEventLoop):
    def start() -> dict[str, Program]:
        lock = asyncio.Lock()

        async def acquire() -> None:
            await lock.acquire()
            await asyncio.get_running_loop().create_future()

        return {"A": acquire(), "B": acquire()}

    assert stalled(loop, start) == (
        "A waits for the future, which no other task is seen to use\n"
        "B waits for the lock `lock`, whose holder is not known"
    )


def test_a_lock_taken_twice_is_a_cycle_of_one(loop: asyncio.AbstractEventLoop):
    def start() -> dict[str, Program]:
        lock = asyncio.Lock()

        async def twice() -> None:
            async with lock, lock:
                pass

        return {"A": twice()}

    assert stalled(loop, start) == "A waits for the lock `lock`, which A holds"


def test_locks_held_through_other_context_managers(loop: asyncio.AbstractEventLoop):
    def start() -> dict[str, Program]:
        lock, other, mutex = asyncio.Lock(), asyncio.Semaphore(1), Mutex(0)
        never = asyncio.Event()

        @contextlib.asynccontextmanager
        async def session() -> AsyncIterator[None]:
            async with lock:
                yield

        async def hold() -> None:
            async with session(), contextlib.AsyncExitStack() as stack:
                await stack.enter_async_context(other)
                async with mutex:
                    await never.wait()

        async def want(it: contextlib.AbstractAsyncContextManager[Any]) -> None:
            await asyncio.sleep(0)
            async with it:
                never.set()

        return {"A": hold(), "B": want(lock), "C": want(other), "D": want(mutex), "E": want(session())}

    assert stalled(loop, start).splitlines() == [
        "A waits for the event `never`, which B, C, D and E use; B waits for the lock `it`, which A holds",
        "C waits for the semaphore `it`, which A holds",
        "D waits for the mutex `it`, which A holds",
        "E waits for the lock `lock`, which A holds",
    ]


def test_a_condition_that_is_waited_for_does_not_hold_its_lock(loop: asyncio.AbstractEventLoop):
    def start() -> dict[str, Program]:
        condition, never = asyncio.Condition(), asyncio.Event()

        async def wait() -> None:
            async with condition:
                await condition.wait()

        async def hold() -> None:
            await asyncio.sleep(0)
            async with condition:
                await never.wait()

        async def want() -> None:
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            async with condition:
                condition.notify()

        return {"A": wait(), "B": hold(), "C": want()}

    assert stalled(loop, start) == (
        "A waits for a notification of the condition `condition`, which B and C use\n"
        "B waits for the event `never`, which no other task is seen to use\n"
        "C waits for the lock `condition`, which B holds"
    )


def test_tasks_awaited_together(loop: asyncio.AbstractEventLoop):
    def start() -> dict[str, Program]:
        event = asyncio.Event()

        async def wait() -> None:
            await event.wait()

        def tasks() -> list[asyncio.Task[None]]:
            return [asyncio.create_task(wait(), name=f"part {number}") for number in (10, 9)]

        async def group() -> None:
            async with asyncio.TaskGroup() as together:
                together.create_task(wait(), name="of the group")

        async def gather() -> None:
            await asyncio.gather(*tasks())

        async def some() -> None:
            parts = tasks()
            try:
                await asyncio.wait(parts)
            finally:
                event.set()

        async def shield() -> None:
            await asyncio.shield(tasks()[0])

        async def limited() -> None:
            await asyncio.wait_for(wait(), None if sys.version_info < (3, 12) else 100)

        async def slept() -> None:
            await asyncio.sleep(1000)

        return {"A": group(), "B": gather(), "C": some(), "D": shield(), "E": slept(), "F": limited()}

    assert stalled(loop, start).splitlines() == [
        "A waits for the task group `together`: of the group is not done",
        "B waits for a gather: part 9 and part 10 are not done",
        "C waits for `asyncio.wait`: part 9 and part 10 are not done",
        "D waits for a shield: part 10 is not done",
        "E waits for a timer",
        "F waits for the event `event`, which C uses",
    ]


def test_a_gather_of_gathers(loop: asyncio.AbstractEventLoop):
    def start() -> dict[str, Program]:
        bare = [loop.create_future() for _ in range(2)]

        async def futures() -> None:
            await asyncio.gather(asyncio.gather(*bare))

        async def tasks() -> None:
            inner = asyncio.get_running_loop().create_task(asyncio.sleep(1000), name="inner")
            await asyncio.gather(asyncio.gather(inner, *bare), bare[0])

        return {"A": futures(), "B": tasks()}

    assert stalled(loop, start).splitlines() == ["A waits for a gather", "B waits for a gather: inner is not done"]


def test_sockets_and_streams(loop: asyncio.AbstractEventLoop):
    with contextlib.ExitStack() as stack:
        here, _, raw, _ = (stack.enter_context(each) for _ in "ab" for each in socket.socketpair())
        raw.setblocking(False)

        def start() -> dict[str, Program]:
            async def read() -> None:
                reader, writer = await asyncio.open_connection(sock=here)
                try:
                    await reader.readline()
                finally:
                    writer.close()
                    with contextlib.suppress(ConnectionError):
                        await writer.wait_closed()

            async def receive() -> None:
                await asyncio.get_running_loop().sock_recv(raw, 1)

            return {"A": read(), "B": receive()}

        assert stalled(loop, start) == (
            "A waits for data on the stream `reader`\nB waits for `sock_recv` on the socket `raw`"
        )


def test_a_certain_cycle_is_preferred_to_a_shorter_hint(loop: asyncio.AbstractEventLoop):
    def start() -> dict[str, Program]:
        locks = [asyncio.Lock() for _ in range(3)]
        event = asyncio.Event()

        async def take(number: int) -> None:
            async with locks[number]:
                await asyncio.sleep(0)
                async with locks[(number + 1) % 3]:
                    pass

        async def wait() -> None:
            async with lock:
                await event.wait()

        async def wake() -> None:
            await asyncio.sleep(0)
            async with lock:
                event.set()

        lock = asyncio.Lock()
        return {"H1": wait(), "H2": wake(), **{f"T{number}": take(number) for number in range(3)}}

    lines = stalled(loop, start).splitlines()
    assert lines[0].startswith("T0 waits for the lock `locks[1]`, which T1 holds; T1 waits")
    assert len(lines) == 3


def test_the_shortest_cycle_is_explained_first(loop: asyncio.AbstractEventLoop):
    def start() -> dict[str, Program]:
        locks = [asyncio.Lock() for _ in range(5)]

        async def take(mine: int, other: int) -> None:
            async with locks[mine]:
                await asyncio.sleep(0)
                async with locks[other]:
                    pass

        return {"A": take(0, 1), "B": take(1, 2), "C": take(2, 0), "D": take(3, 4), "E": take(4, 3)}

    assert stalled(loop, start).startswith(
        "D waits for the lock `locks[4]`, which E holds; E waits for the lock `locks[3]`, which D holds\nA waits"
    )


def test_a_task_of_a_library_coroutine_waits_in_the_library(loop: asyncio.AbstractEventLoop):
    async def main() -> None:
        queue: asyncio.Queue[int] = asyncio.Queue()
        queue.put_nowait(1)
        task = asyncio.create_task(queue.join(), name="A")
        await asyncio.sleep(0)
        (wait,) = find_waits([task])
        assert wait.place.startswith("queues.py:")
        assert wait.what == "the last `task_done` of the queue"
        task.cancel()
        await asyncio.wait([task])

    loop.run_until_complete(main())


def test_tasks_that_can_run_have_no_wait(loop: asyncio.AbstractEventLoop):
    async def main() -> None:
        task = asyncio.create_task(asyncio.sleep(0))
        assert find_waits([task]) == []
        assert cycle_of([]) == []
        await task
        assert find_waits([task, asyncio.current_task()]) == []  # type: ignore[list-item]

    loop.run_until_complete(main())


def test_objects_are_searched_without_running_their_code(loop: asyncio.AbstractEventLoop):
    class Proxy:
        """Like a proxy for an object that is not bound."""

        def __getattr__(self, name: str) -> object:
            raise RuntimeError("there is no object")

        __class__ = property(lambda self: self.missing)  # type: ignore[assignment]
        __dict__ = property(lambda self: self.missing)  # type: ignore[assignment]

    class Slotted:
        __slots__ = ("queue", "unset")

        @property
        def surprise(self) -> object:
            raise AssertionError("this must not run")

    def start() -> dict[str, Program]:
        holder = Slotted()
        holder.queue = asyncio.Queue()

        async def consume(proxy: Proxy) -> None:
            await holder.queue.get()

        async def produce() -> None:
            await asyncio.Event().wait()
            holder.queue.put_nowait(1)

        return {"A": consume(Proxy()), "B": produce()}

    assert stalled(loop, start).splitlines()[0] == "A waits for an item in the queue `holder.queue`, which B uses"
