"""What a task awaits may be of a class of the program's: its own methods are called, as by asyncio, and no others."""

import asyncio
from typing import Any

import pytest


@pytest.mark.parametrize("base", ["asyncio", "loop"])
def test_the_result_of_a_class_of_the_programs_decides_what_a_task_that_waits_for_it_gets(loop: Any, base: str) -> None:
    class Positive(asyncio.Future if base == "asyncio" else type(loop.create_future())):  # type: ignore[misc]
        def result(self) -> Any:
            if super().result() < 0:
                raise ValueError("negative")

    async def main() -> None:
        for result in (1, -1):
            future = Positive(loop=loop)
            loop.call_soon(future.set_result, result)
            assert await future == 1

    with pytest.raises(ValueError, match="negative") as raised:
        loop.run_until_complete(main())
    assert not [entry for entry in raised.traceback if entry.name == "failure_of"]


async def test_what_is_like_a_future_needs_no_more_than_asyncio_asks_for(loop: Any) -> None:
    class Like:
        _asyncio_future_blocking = False

        def get_loop(self) -> Any:
            return loop

        def add_done_callback(self, callback: Any, *, context: Any) -> None:
            loop.call_soon(callback, self, context=context)

        def result(self) -> str:
            return "like"

        def cancel(self, *arguments: Any) -> bool:
            cancelled.append(arguments)
            return False

        def __await__(self) -> Any:
            self._asyncio_future_blocking = True
            yield self
            return self.result()

    async def wait() -> Any:
        return await Like()

    cancelled: list[Any] = []
    assert await loop.create_task(wait()) == "like"
    task = loop.create_task(wait())
    await asyncio.sleep(0)
    task.cancel("why")
    with pytest.raises(asyncio.CancelledError):
        await task
    assert cancelled == [("why",)]


@pytest.mark.parametrize("overridden", [True, False])
async def test_a_future_of_a_class_of_the_programs_hears_who_waits(loop: Any, overridden: bool) -> None:
    heard: list[Any] = []
    base: Any = type(loop.create_future())

    class Heard(base):  # type: ignore[misc]
        def add_done_callback(self, fn: Any, *, context: Any = None) -> None:
            heard.append(context is not None)
            super().add_done_callback(fn, context=context)

    class Plain(base):  # type: ignore[misc]
        pass

    future = (Heard if overridden else Plain)(loop=loop)
    loop.call_soon(future.set_result, "done")
    assert await future == "done"
    assert heard == [True] * overridden
