"""`await` returns the result itself, of any type: the object that carries it stays hidden (docs/adr/0007)."""

import asyncio
from typing import Any

import pytest

Loop = asyncio.AbstractEventLoop

VALUES = [None, 0, "text", (), (1, 2), ValueError("no error"), StopIteration("no end"), ValueError, StopIteration]


@pytest.mark.parametrize("value", VALUES, ids=repr)
async def test_an_awaited_future_gives_its_result(loop: Loop, value: Any) -> None:
    future = loop.create_future()
    loop.call_soon(future.set_result, value)
    assert await future is value
    assert await future is value


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_who_iterates_by_hand_is_given_the_result_by_the_exception(loop: Loop, value: Any) -> None:
    future = loop.create_future()
    future.set_result(value)
    with pytest.raises(StopIteration) as by_next:
        next(iter(future))
    with pytest.raises(StopIteration) as by_send:
        future.__await__().send(None)  # type: ignore[attr-defined]
    for raised in (by_next, by_send):
        assert raised.value.value is value
        # From Python 3.14 on asyncio's futures give None as an argument, too; so do their subclasses in the pure build.
        assert raised.value.args in ([(), (None,)] if value is None else [(value,)])


async def test_the_result_is_let_go_of_when_it_was_given(loop: Loop) -> None:
    class Weighty:
        """Something that can be seen to go."""

        def __del__(self) -> None:
            gone.append(self.__class__)

    gone: list[type] = []
    future = loop.create_future()
    loop.call_soon(future.set_result, Weighty())
    await asyncio.sleep(0)
    result = await future
    del future
    assert not gone
    del result
    assert gone == [Weighty]


def test_an_error_that_is_dealt_with_while_a_future_is_awaited_stays_what_it_is(loop: Loop) -> None:
    async def main() -> None:
        future = loop.create_future()
        loop.call_soon(future.set_result, 1)
        try:
            raise ValueError("of the program")
        except ValueError:
            assert await future == 1
            raise KeyError("another") from None

    with pytest.raises(KeyError) as raised:
        loop.run_until_complete(main())
    error = raised.value.__context__
    assert isinstance(error, ValueError)
    assert error.__context__ is None
