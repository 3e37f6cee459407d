"""The pure build's tasks: asyncio's, extended to behave as loopcore's (docs/adr/0002)."""

import asyncio
import contextvars
import gc
from typing import Any

import pytest

import loopcore
from loopcore.kernel import registry
from loopcore.kernel.interpreted_steps import IS_COMPILED, Task
from loopcore.kernel.scheduler import INTERPRETED

pytestmark = [
    pytest.mark.loopcore_only,
    pytest.mark.skipif(not INTERPRETED or not IS_COMPILED, reason="there tasks are loopcore's own"),
]


async def value(steps: int) -> int:
    for _ in range(steps):
        await asyncio.sleep(0)
    return steps


async def failing() -> None:
    raise ValueError


async def forever() -> None:
    await asyncio.get_running_loop().create_future()


class Recorder:
    """A plugin that notes what it is told of tasks."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str]] = []

    @loopcore.hookimpl
    def loopcore_task_woken(self, task: Any) -> None:
        self.seen.append(("woken", task.get_name()))

    @loopcore.hookimpl
    def loopcore_task_step_begin(self, task: Any) -> None:
        self.seen.append(("begin", task.get_name()))

    @loopcore.hookimpl
    def loopcore_task_step_end(self, task: Any) -> None:
        self.seen.append(("end", task.get_name()))

    @loopcore.hookimpl
    def loopcore_task_done(self, task: Any) -> None:
        self.seen.append(("done", task.get_name()))


def test_tasks_and_futures_pass_for_loopcores(loop: Any) -> None:
    async def main() -> None:
        task, future = asyncio.current_task(), loop.create_future()
        assert type(task) is Task
        assert isinstance(task, loopcore.Task)
        assert isinstance(task, loopcore.Future)
        assert isinstance(future, loopcore.Future)
        assert not isinstance(future, loopcore.Task)
        assert not isinstance(17, loopcore.Task)

    loop.run_until_complete(main())


def test_steps_and_ends_are_counted(loop: Any) -> None:
    async def main() -> None:
        cancelled = loop.create_task(forever())
        await asyncio.sleep(0)
        cancelled.cancel()
        await asyncio.gather(value(2), failing(), cancelled, return_exceptions=True)

    loop.run_until_complete(main())
    counters = loop.counters()
    assert (counters.tasks_created, counters.tasks_live) == (4, 0)
    assert (counters.tasks_finished, counters.tasks_failed, counters.tasks_cancelled) == (2, 1, 1)
    # main: at first, after its sleep, after gather; value: three; failing: one; forever: two.
    assert counters.task_steps == 3 + 3 + 1 + 2


@pytest.mark.reports_errors
def test_a_task_that_is_garbage_before_its_end_is_counted(loop: Any) -> None:
    reports: list[Any] = []
    loop.set_exception_handler(lambda _, context: reports.append(context["message"]))

    async def main() -> None:
        loop.create_task(forever())
        await asyncio.sleep(0)

    loop.run_until_complete(main())
    gc.collect()
    assert reports == ["Task was destroyed but it is pending!"]
    assert loop.counters().tasks_destroyed == 1
    assert loop.counters().tasks_live == 0


@pytest.mark.reports_errors
def test_a_task_is_called_task_in_reprs_and_reports(loop: Any) -> None:
    reports: list[Any] = []
    loop.set_exception_handler(lambda _, context: reports.append(context["message"]))
    task = loop.create_task(failing())
    assert repr(task).startswith("<Task pending name=")
    loop.call_soon(loop.stop)
    loop.run_forever()
    del task
    gc.collect()
    assert reports == ["Task exception was never retrieved"]


def test_asyncios_tasks_that_others_make_are_not_counted(loop: Any) -> None:
    async def main() -> None:
        await asyncio.Task(value(1), loop=loop)

    loop.run_until_complete(main())
    assert loop.counters().tasks_created == loop.counters().tasks_finished == 1


def test_a_plugin_that_comes_later_sees_the_steps_of_the_tasks_that_are_there(loop: Any) -> None:
    recorder = Recorder()

    async def main() -> None:
        waiting = loop.create_future()
        task = loop.create_task(wait(waiting), name="older")
        await asyncio.sleep(0)
        loop.probes.register(recorder, "recorder")
        waiting.set_result(None)
        await task
        loop.probes.unregister(recorder)

    async def wait(future: Any) -> None:
        await future

    loop.run_until_complete(main())
    older = [what for what, name in recorder.seen if name == "older"]
    assert older == ["woken", "begin", "done", "end"]


def test_a_step_runs_in_the_context_of_its_task(loop: Any) -> None:
    variable = contextvars.ContextVar("variable", default="outside")

    async def child() -> str:
        variable.set("inside")
        await asyncio.sleep(0)
        return variable.get()

    async def main() -> tuple[str, str, str]:
        task = loop.create_task(child())
        return await task, variable.get(), task.get_context()[variable]

    assert loop.run_until_complete(main()) == ("inside", "outside", "inside")


@pytest.mark.parametrize("exit_type", [SystemExit, KeyboardInterrupt])
def test_an_exit_ends_the_run_and_the_task(loop: Any, exit_type: type[BaseException]) -> None:
    async def main() -> None:
        raise exit_type

    with pytest.raises(exit_type):
        loop.run_until_complete(main())
    assert loop.counters().tasks_failed == 1


def test_a_method_of_a_task_as_a_callback_is_no_step(loop: Any) -> None:
    async def main() -> None:
        future = loop.create_future()
        task = loop.create_task(wait(future))
        await asyncio.sleep(0)
        future.add_done_callback(task.cancel)  # beside its wake-up, with the same argument
        future.set_result(1)
        await asyncio.wait([task])

    async def wait(future: Any) -> int:
        return int(await future)

    loop.run_until_complete(main())
    assert loop.counters().task_steps == 3 + 2


def test_an_interrupt_that_did_not_end_the_task_does_not_count_as_its_end(loop: Any) -> None:
    class Interrupting:
        _asyncio_future_blocking = True
        _loop = loop

        def get_loop(self) -> Any:
            return loop

        def __await__(self) -> Any:
            yield self

        def add_done_callback(self, callback: Any, *, context: Any) -> None:
            raise KeyboardInterrupt

    async def wait() -> None:
        await Interrupting()

    task = loop.create_task(wait())
    with pytest.raises(KeyboardInterrupt):
        loop.run_forever()
    assert not task.done()
    assert loop.counters().tasks_finished == 0
    task._log_destroy_pending = False


def test_tasks_of_both_makers_are_numbered_together(loop: Any) -> None:
    async def main() -> None:
        tasks = [loop.create_task(value(0)), loopcore.Task(value(0), loop=loop), loop.create_task(value(0))]
        first, second, third = [int(task.get_name().removeprefix("Task-")) for task in tasks]
        assert (second, third) == (first + 1, first + 2)
        await asyncio.gather(*tasks)

    loop.run_until_complete(main())


def test_a_number_leaves_nothing_to_the_collector() -> None:
    def tasks() -> int:
        return sum(type(each) is asyncio.Task for each in gc.get_objects())

    gc.collect()
    gc.disable()
    try:
        before = tasks()
        assert registry.next_number() < registry.next_number()
        assert tasks() == before
    finally:
        gc.enable()
