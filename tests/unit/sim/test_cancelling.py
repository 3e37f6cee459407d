import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from loopcore.errors import UsageError
from loopcore.sim import CANCELLED, Outcome, SwallowedCancellationError, Tape, may_cancel, simulate
from loopcore.sim.search import Fifo, Replay

AT_ONCE, AS_ANOTHER_WAS_WOKEN, AS_IT_WAS_WOKEN = 1, 2, 3


def run(main: Callable[[], Coroutine[Any, Any, Any]], *values: int) -> Outcome:
    """Run `main` with these answers to its choices, and zeros after them; raise what it raises."""
    outcome = simulate(main, Tape(Replay(values) if values else Fifo()))
    if outcome.error is not None:
        raise outcome.error
    return outcome


def notes(outcome: Outcome) -> list[str]:
    return [entry.text for entry in outcome.log if entry.kind == "cancel"]


async def steps() -> list[str]:
    seen = []
    try:
        seen.append("first")
        await asyncio.sleep(1)
        seen.append("second")
        await asyncio.sleep(1)
        seen.append("third")
    except asyncio.CancelledError:
        seen.append("cancelled")
    return seen


def test_with_zeros_the_coroutine_runs_as_a_task_would() -> None:
    async def main() -> Any:
        return await may_cancel(steps(), name="steps")

    outcome = run(main)
    assert outcome.result == ["first", "second", "third"]
    assert outcome.seconds == pytest.approx(2, abs=0.01)
    assert notes(outcome) == []
    assert [(choice.n, choice.value) for choice in outcome.tape.choices] == [(4, 0), (4, 0)]


def test_at_once_comes_before_time_has_passed() -> None:
    async def main() -> Any:
        return await may_cancel(steps(), name="steps")

    assert run(main, AT_ONCE).result == ["first", "cancelled"]
    assert run(main, AT_ONCE).seconds < 0.01
    assert run(main, 0, AT_ONCE).result == ["first", "second", "cancelled"]


def test_as_it_was_woken_comes_when_the_future_is_done_and_its_result_is_lost() -> None:
    async def main() -> Any:
        future = asyncio.get_running_loop().create_future()

        async def wait() -> Any:
            return await future

        waiting = asyncio.create_task(may_cancel(wait()))
        await asyncio.sleep(1)
        future.set_result("result")
        return await waiting, future.result()

    assert run(main).result == ("result", "result")
    assert run(main, AS_IT_WAS_WOKEN).result == (CANCELLED, "result")


def test_as_another_was_woken_cancels_before_the_other_goes_on() -> None:
    async def main() -> Any:
        first = asyncio.get_running_loop().create_future()

        async def wait() -> Any:
            await first

        async def look() -> bool:
            await asyncio.sleep(1)
            return bool(first.cancelled())

        return await asyncio.gather(may_cancel(wait(), name="waiter"), may_cancel(look(), name="looker"))

    outcome = run(main, AS_ANOTHER_WAS_WOKEN, 0, 1)
    assert outcome.result == [CANCELLED, True]
    (note,) = notes(outcome)
    assert note.startswith("cancel waiter at test_cancelling.py:")
    assert note.endswith(", as looker was woken")


def test_a_bare_yield_cannot_be_woken() -> None:
    async def main() -> Any:
        return await may_cancel(asyncio.sleep(0, "slept"))

    outcome = run(main, AT_ONCE)
    assert outcome.result is CANCELLED
    assert outcome.tape.choices[0].n == 3


def test_the_label_names_the_coroutine_and_the_line_in_the_program() -> None:
    async def outer() -> None:
        await inner()

    async def inner() -> None:
        await asyncio.wait_for(asyncio.sleep(1), 5)

    async def main() -> Any:
        return await may_cancel(outer())

    line = inner.__code__.co_firstlineno + 1
    label = f"cancel outer: in inner at test_cancelling.py:{line}: at once, as another was woken, as it was woken"
    assert run(main).tape.choices[0].label == label


def test_an_exception_of_its_own_is_raised() -> None:
    async def fail() -> None:
        try:
            await asyncio.sleep(1)
        finally:
            raise LookupError("own")

    async def main() -> None:
        await may_cancel(fail())

    for values in ((), (AT_ONCE,)):
        with pytest.raises(LookupError, match="own"):
            run(main, *values)


def test_a_swallowed_cancellation_is_noted_and_an_error_if_strict() -> None:
    async def main() -> Any:
        return await may_cancel(steps(), name="steps")

    async def strict() -> Any:
        return await may_cancel(steps(), name="steps", strict=True)

    assert notes(run(main, AT_ONCE))[-1].endswith("at once, and returned a result all the same")
    with pytest.raises(SwallowedCancellationError, match=r"steps was cancelled at test_cancelling\.py:"):
        run(strict, AT_ONCE)
    assert run(strict).result == ["first", "second", "third"]


def test_it_is_cancelled_once_only() -> None:
    async def stubborn() -> int:
        cancelled = 0
        for _ in range(3):
            try:
                await asyncio.sleep(1)
            except asyncio.CancelledError:
                cancelled += 1
        return cancelled

    async def main() -> Any:
        return await may_cancel(stubborn())

    assert run(main, AT_ONCE, AT_ONCE, AT_ONCE).result == 1


def test_a_cancelled_caller_is_not_mistaken_for_a_choice() -> None:
    async def main() -> Any:
        caller = asyncio.create_task(may_cancel(asyncio.sleep(5)))
        await asyncio.sleep(1)
        caller.cancel()
        await asyncio.wait([caller])
        return caller.cancelled()

    assert run(main).result is True


def test_a_caller_that_is_cancelled_early_leaves_no_coroutine_behind() -> None:
    async def main() -> Any:
        caller = asyncio.create_task(may_cancel(asyncio.sleep(5)))
        await asyncio.sleep(0)
        caller.cancel()
        await asyncio.wait([caller])
        return caller.cancelled()

    assert run(main).result is True


def test_only_the_first_200_suspensions_are_choices() -> None:
    async def main() -> None:
        async def spin() -> None:
            for _ in range(250):
                await asyncio.sleep(0)

        await may_cancel(spin())

    assert len(run(main).tape.choices) == 200


def test_outside_a_simulation_it_says_so() -> None:
    with pytest.raises(UsageError, match=r"loopcore\.sim\.run"):
        asyncio.run(may_cancel(asyncio.sleep(0)))
