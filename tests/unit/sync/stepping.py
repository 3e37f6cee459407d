"""Operations driven by hand: started, woken, resumed and cancelled in any order, with no loop in between.

A loop resumes what is woken soon and in order. What happens between a wake and the step that follows is where
wake-ups get lost, so the models do both steps themselves.
"""

import asyncio
from asyncio import events
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any


@dataclass(eq=False)
class Step:
    """An operation that is under way."""

    operation: Any
    waits_for: Any
    argument: Any = None

    @property
    def is_awake(self) -> bool:
        return self.waits_for.done()


@dataclass
class Done:
    """What an operation came to."""

    value: Any = None
    error: Exception | None = None


class PromptLoop(asyncio.SelectorEventLoop):
    """Does at once what other threads ask for, so a wake is seen before anybody runs."""

    def call_soon_threadsafe(self, callback: Any, *args: Any, context: Any = None) -> Any:
        callback(*args)


class Stepper:
    """Stands in for the loop's tasks. The loop itself never runs; `forget` drops what it was told to call."""

    def __init__(self) -> None:
        self.loop = PromptLoop()

    @contextmanager
    def running(self) -> Iterator[None]:
        events._set_running_loop(self.loop)
        try:
            yield
        finally:
            events._set_running_loop(None)

    def begin(self, operation: Any, argument: Any = None) -> Step | Done:
        return self._advance(operation, argument)

    def resume(self, step: Step) -> Step | Done:
        assert step.is_awake
        return self._advance(step.operation, step.argument)

    def cancel(self, step: Step) -> None:
        step.waits_for.cancel()  # what Task.cancel does; nothing happens if it was woken by then
        with self.running():
            try:
                step.operation.throw(asyncio.CancelledError())
            except asyncio.CancelledError:
                return
        raise AssertionError("the operation survived its cancellation")

    def close(self) -> None:
        self.loop.close()

    def _advance(self, operation: Any, argument: Any) -> Step | Done:
        with self.running():
            try:
                future = operation.send(None)
            except StopIteration as stop:
                return Done(stop.value)
            except Exception as error:
                return Done(error=error)
        assert asyncio.isfuture(future)
        return Step(operation, future, argument)
