import asyncio
import gc
import pickle
import random
import weakref
from typing import Any

import pytest

from loopcore_backends.sim.ordered import OrderedSet, OrderedWeakSet, replacements
from loopcore_backends.sim.replacing import installed


class Item:
    """Hashes by address."""


ITEMS = [Item() for _ in range(200)]


def model(method: str, left: list[Any], right: list[Any]) -> list[Any]:
    if method == "update":
        return list(dict.fromkeys(left + right))
    if method == "intersection_update":
        return [item for item in left if item in right]
    kept = [item for item in left if item not in right]
    return kept if method == "difference_update" else kept + [item for item in right if item not in left]


METHODS = {
    "update": ("union", "__or__", "__ior__"),
    "difference_update": ("difference", "__sub__", "__isub__"),
    "intersection_update": ("intersection", "__and__", "__iand__"),
    "symmetric_difference_update": ("symmetric_difference", "__xor__", "__ixor__"),
}


@pytest.mark.parametrize("method", METHODS)
def test_every_way_to_change_a_set_keeps_the_order(method: str) -> None:
    draw = random.Random(1)
    for _ in range(50):
        left, right = draw.sample(ITEMS, 20), draw.sample(ITEMS, 150)
        expected = model(method, left, right)
        made, *operators = METHODS[method]
        changed = OrderedSet(left)
        getattr(changed, method)(iter(right))
        assert list(changed) == expected
        assert list(getattr(OrderedSet(left), made)(right)) == expected
        for operator in operators:
            result = getattr(OrderedSet(left), operator)(
                set(right) if method == "difference_update" else OrderedSet(right)
            )
            assert list(result) == expected
            assert result == set(expected)
            assert len(result) == len(expected)


def test_single_items_come_and_go_in_order() -> None:
    items = OrderedSet(ITEMS)
    items.remove(ITEMS[0])
    items.discard(ITEMS[1])
    items.discard(Item())
    items.add(ITEMS[3])
    items.add(ITEMS[0])
    assert list(items) == [*ITEMS[2:], ITEMS[0]]
    assert [items.pop() for _ in range(len(items))] == [*ITEMS[2:], ITEMS[0]]
    assert not items
    for operation in (items.pop, lambda: items.remove(ITEMS[0])):
        with pytest.raises(KeyError):
            operation()
    items.add(1)
    items.clear()
    assert (list(items), repr(items)) == ([], "set()")


def test_a_set_is_changed_by_itself() -> None:
    items = OrderedSet(ITEMS)
    items -= items
    assert items == set()
    with pytest.raises(TypeError):
        items |= [1]  # type: ignore[arg-type]


def test_it_passes_for_a_set() -> None:
    items = OrderedSet("ba")
    assert isinstance(items, set)
    assert isinstance({1}, OrderedSet)
    assert OrderedSet == set  # noqa: E721
    assert repr(items) == "{'b', 'a'}"
    assert type(pickle.loads(pickle.dumps(items))) is set
    with pytest.raises(TypeError, match="unhashable"):
        hash(items)


def test_weak_sets_are_iterated_in_order(world: Any) -> None:
    with installed(replacements(world)):
        alive = weakref.WeakSet(ITEMS)
        assert list(alive) == ITEMS
        assert isinstance(alive, OrderedWeakSet)
        alive.discard(ITEMS[7])
        alive.add(ITEMS[7])
        alive.add(Item())
        gc.collect()
        assert list(alive) == [*ITEMS[:7], *ITEMS[8:], ITEMS[7]]
    assert isinstance(alive, weakref.WeakSet)


def run(world: Any, main: Any) -> None:
    with asyncio.Runner() as runner:
        runner.get_loop()  # made of real sockets
        with installed(replacements(world)):
            runner.run(main)


def test_wait_returns_sets_in_the_order_of_its_argument(world: Any) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        futures = [loop.create_future() for _ in range(100)]
        for future in reversed(futures[:50]):
            future.set_result(None)
        done, pending = await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)
        assert list(done) == futures[:50]
        assert list(pending) == futures[50:]

    run(world, main())


def test_as_completed_starts_coroutines_in_order(world: Any) -> None:
    started: list[int] = []

    async def start(number: int) -> None:
        started.append(number)

    async def main() -> None:
        for future in asyncio.as_completed([start(number) for number in range(100)]):
            await future

    run(world, main())
    assert started == list(range(100))


def test_a_task_group_cancels_in_order_of_creation(world: Any) -> None:
    cancelled: list[int] = []

    async def wait(number: int) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.append(number)

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            for number in range(100):
                group.create_task(wait(number))
            await asyncio.sleep(0)
            raise ZeroDivisionError

    with pytest.raises(ExceptionGroup):
        run(world, main())
    assert cancelled == list(range(100))
