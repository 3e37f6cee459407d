"""Futures and tasks of the loop in everything asyncio offers; asyncio's own loop is the oracle."""

import asyncio
import contextvars
import os
import subprocess
import sys
import threading
from typing import Any

import pytest

Loop = asyncio.AbstractEventLoop


async def value(result: Any, turns: int = 1) -> Any:
    for _ in range(turns):
        await asyncio.sleep(0)
    return result


async def fail(error: BaseException) -> None:
    await asyncio.sleep(0)
    raise error


async def test_both_pass_for_asyncios(loop: Loop) -> None:
    future, task = loop.create_future(), loop.create_task(value(1))
    assert asyncio.isfuture(future)
    assert asyncio.isfuture(task)
    assert isinstance(future, asyncio.Future)
    assert isinstance(task, asyncio.Task)
    assert isinstance(task, asyncio.Future)
    assert not isinstance(future, asyncio.Task)
    assert asyncio.ensure_future(future) is future
    assert asyncio.wrap_future(future) is future  # type: ignore[arg-type]
    assert task.get_loop() is future.get_loop() is loop
    future.cancel()
    assert await task == 1


async def test_gather_wait_and_as_completed(loop: Loop) -> None:
    assert await asyncio.gather(value(1, 3), value(2), value(3, 2)) == [1, 2, 3]
    results = await asyncio.gather(value(1), fail(ValueError("a")), return_exceptions=True)
    assert results[0] == 1
    assert isinstance(results[1], ValueError)
    tasks = [loop.create_task(value(number, number)) for number in (30, 1, 20)]
    done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    assert [task.result() for task in done] == [1]
    assert await asyncio.wait(pending)
    assert [await one for one in asyncio.as_completed([value(n, n) for n in (30, 1, 10)])] == [1, 10, 30]


async def test_wait_for_timeout_and_shield(loop: Loop) -> None:
    assert await asyncio.wait_for(value(1), 5) == 1
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(loop.create_future(), 0)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            await loop.create_future()
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0
    inner = loop.create_task(value("kept", 3))
    outer = asyncio.shield(inner)
    outer.cancel()
    with pytest.raises(asyncio.CancelledError):
        await outer
    assert await inner == "kept"


async def test_task_groups_cancel_the_others_and_say_why() -> None:
    async def fail_beside(waiting: list[Any]) -> None:
        async with asyncio.TaskGroup() as group:
            waiting.append(group.create_task(asyncio.sleep(3600)))
            group.create_task(fail(ValueError("a")))

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(value(number)) for number in range(3)]
    assert [task.result() for task in tasks] == [0, 1, 2]
    waiting: list[Any] = []
    with pytest.raises(ExceptionGroup) as caught:
        await fail_beside(waiting)
    assert [str(error) for error in caught.value.exceptions] == ["a"]
    assert waiting[0].cancelled()


async def test_queues_and_locks(loop: Loop) -> None:
    log: list[Any] = []

    async def use(lock: Any, name: str) -> None:
        async with lock:
            log.append(name)
            await asyncio.sleep(0)

    for lock in (asyncio.Lock(), asyncio.Semaphore(1), asyncio.Condition()):
        log.clear()
        await asyncio.gather(*(use(lock, name) for name in "abc"))
        assert log == ["a", "b", "c"]
    event, barrier, queue = asyncio.Event(), asyncio.Barrier(2), asyncio.Queue[int](1)
    waiting = loop.create_task(event.wait())
    await asyncio.sleep(0)
    event.set()
    assert await waiting
    assert sorted(await asyncio.gather(barrier.wait(), barrier.wait())) == [0, 1]
    getting = [loop.create_task(queue.get()) for _ in range(3)]
    for number in range(3):
        await queue.put(number)
    assert await asyncio.gather(*getting) == [0, 1, 2]


def test_coroutines_from_another_thread(loop: Loop) -> None:
    results: list[Any] = []

    def work() -> None:
        results.append(asyncio.run_coroutine_threadsafe(value("result"), loop).result(10))
        try:
            asyncio.run_coroutine_threadsafe(fail(ValueError("mine")), loop).result(10)
        except ValueError as error:
            results.append(str(error))
        loop.call_soon_threadsafe(loop.stop)

    thread = threading.Thread(target=work)
    loop.call_soon(thread.start)
    loop.run_forever()
    thread.join()
    assert results == ["result", "mine"]


def test_current_and_all_tasks(loop: Loop) -> None:
    async def main() -> None:
        me = asyncio.current_task()
        assert me is task
        other = loop.create_task(value(1), name="other")
        assert asyncio.all_tasks() == {me, other}
        await other
        assert asyncio.all_tasks() == {me}
        assert asyncio.current_task() is me

    task = loop.create_task(main())
    assert asyncio.all_tasks(loop) == {task}
    loop.run_until_complete(task)
    assert asyncio.all_tasks(loop) == set()
    assert asyncio.current_task(loop) is None


@pytest.mark.parametrize("waiter", ["own", "c"])
@pytest.mark.parametrize("awaited", ["own", "c", "own task", "c task"])
async def test_awaiting_from_and_to_asyncios_c_classes(loop: Loop, waiter: str, awaited: str) -> None:
    def make_task(coro: Any, kind: str) -> Any:
        return loop.create_task(coro) if kind.startswith("own") else asyncio.Task(coro, loop=loop)

    async def turn_out(outcome: Any) -> Any:
        await (loop.create_future() if outcome == "never" else asyncio.sleep(0))
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    def make_awaited(outcome: Any) -> Any:
        if awaited.endswith("task"):
            return make_task(turn_out(outcome), awaited)
        future = loop.create_future() if awaited == "own" else asyncio.Future(loop=loop)
        deliver = future.set_exception if isinstance(outcome, BaseException) else future.set_result
        if outcome != "never":
            loop.call_soon(deliver, outcome)
        return future

    async def wait_for_it(inner: Any) -> Any:
        return await inner

    assert await make_task(wait_for_it(make_awaited("result")), waiter) == "result"
    with pytest.raises(ValueError, match="mine"):
        await make_task(wait_for_it(make_awaited(ValueError("mine"))), waiter)
    inner = make_awaited("never")
    outer = make_task(wait_for_it(inner), waiter)
    await asyncio.sleep(0)
    outer.cancel("message")
    with pytest.raises(asyncio.CancelledError):
        await outer
    assert inner.cancelled()
    inner = make_awaited("never")
    outer = make_task(wait_for_it(inner), waiter)
    inner.cancel()
    with pytest.raises(asyncio.CancelledError):
        await outer
    assert outer.cancelled()
    assert outer.cancelling() == 0


def test_a_task_factory_may_make_asyncios_tasks(loop: Loop) -> None:
    made: list[Any] = []

    def factory(loop: Loop, coro: Any, **options: Any) -> Any:
        made.append(asyncio.Task(coro, loop=loop, **options))
        return made[0]

    loop.set_task_factory(factory)
    assert loop.get_task_factory() is factory
    context = contextvars.copy_context()
    task = loop.create_task(value(1), name="named", context=context)
    assert task is made[0]
    assert task.get_name() == "named"
    assert loop.run_until_complete(task) == 1
    loop.set_task_factory(None)
    assert loop.run_until_complete(value(2)) == 2
    assert len(made) == 1
    with pytest.raises(TypeError, match="must be a callable or None"):
        loop.set_task_factory(17)  # type: ignore[arg-type]


def test_the_environment_gives_asyncios_classes_back() -> None:
    code = (
        "import asyncio, loopcore\n"
        "async def main():\n"
        "    loop = asyncio.get_running_loop()\n"
        "    await asyncio.gather(asyncio.sleep(0))\n"
        "    return type(loop.create_future()), type(asyncio.current_task())\n"
        "assert loopcore.run(main()) == (asyncio.Future, asyncio.Task)\n"
    )
    environment = {**os.environ, "LOOPCORE_TASKS": "asyncio"}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True, timeout=60)


@pytest.mark.loopcore_only
def test_eager_tasks_run_to_their_first_suspension_at_once(loop: Any) -> None:
    log: list[Any] = []
    variable = contextvars.ContextVar("variable", default="outside")

    async def child() -> str:
        log.append((asyncio.current_task().get_name(), asyncio.current_task() in asyncio.all_tasks()))  # type: ignore[union-attr]
        variable.set("inside")
        await asyncio.sleep(0)
        log.append("second step")
        return "result"

    async def main() -> None:
        me = asyncio.current_task()
        task = loop.create_task(child(), name="eager", eager_start=True)
        assert log == [("eager", True)]
        assert asyncio.current_task() is me
        assert variable.get() == "outside"
        assert await task == "result"
        done = loop.create_task(value(1, 0), eager_start=True)
        assert done.done()
        assert done.result() == 1
        assert done.get_coro() is None
        failed = loop.create_task(fail_at_once(), eager_start=True)
        assert isinstance(failed.exception(), ValueError)

    async def fail_at_once() -> None:
        raise ValueError

    loop.run_until_complete(main())
    late = loop.create_task(child(), name="not running", eager_start=True)
    assert len(log) == 2
    loop.run_until_complete(late)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="asyncio has eager tasks since Python 3.12")
def test_asyncios_eager_task_factory(loop: Loop) -> None:
    log: list[str] = []

    async def child() -> None:
        log.append("child")
        await asyncio.sleep(0)

    async def main() -> None:
        task = asyncio.create_task(child())
        log.append("main")
        await task

    loop.set_task_factory(asyncio.eager_task_factory)  # type: ignore[attr-defined]
    loop.run_until_complete(main())
    assert log == ["child", "main"]
