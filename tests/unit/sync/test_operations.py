"""Operations used in ways in which a coroutine complains."""

import asyncio
import gc

import pytest

from loopcore.sync import mpmc
from tests.unit.sync.test_channels import settle


async def test_an_operation_that_is_never_awaited_warns() -> None:
    sender, receiver = mpmc.Channel[int](1)

    def forget() -> None:
        sender.send(1)
        gc.collect()  # where objects are not destroyed at once

    with pytest.warns(RuntimeWarning, match="never awaited"):
        forget()
    assert len(receiver) == 0
    sender.send(1).close()


async def test_an_operation_is_awaited_by_one_task() -> None:
    sender, receiver = mpmc.Channel[int](1)
    operation = receiver.recv()
    first, second = asyncio.create_task(operation), asyncio.create_task(operation)
    await settle()
    assert second.done()
    with pytest.raises(RuntimeError, match="awaited already"):
        second.result()
    sender.try_send(1)
    assert await first == 1


async def test_what_is_thrown_into_an_operation_comes_out_as_of_a_coroutine() -> None:
    with pytest.raises(ValueError, match=r"^thrown$"):
        mpmc.Channel[int](1)[1].recv().throw(ValueError, "thrown")
    operation = mpmc.Channel[int](1)[1].recv()
    with pytest.raises(TypeError, match="must be classes"):
        operation.throw(3)  # type: ignore[arg-type]
    operation.close()
