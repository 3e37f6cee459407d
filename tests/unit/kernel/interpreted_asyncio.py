"""A program on a Python whose asyncio has no compiled tasks, as PyPy's: they are taken away before it is imported."""

import sys

sys.modules["_asyncio"] = None  # type: ignore[assignment]

import asyncio  # noqa: E402
from typing import Any  # noqa: E402

import loopcore  # noqa: E402


async def main() -> None:
    loop: Any = asyncio.get_running_loop()
    task = asyncio.create_task(asyncio.sleep(0.001, "slept"))
    assert isinstance(task, loopcore.Task)
    assert isinstance(loop.create_future(), loopcore.Future)
    assert await task == "slept"  # woken by another task, and that by a timer's future

    task = asyncio.create_task(asyncio.wait_for(loop.create_future(), None))
    await asyncio.sleep(0)
    done = loop.create_future()
    done.add_done_callback(task.cancel)
    done.set_result(None)
    why: Any = None
    try:
        await task
    except asyncio.CancelledError as exc:
        why = exc.args
    assert why == (done,)  # a method of a task is called with its argument, and is no step
    assert loop.counters().tasks_created == 3


assert asyncio.Task is asyncio.tasks._PyTask  # type: ignore[attr-defined]
with loopcore.Runner() as runner:
    runner.run(main())
